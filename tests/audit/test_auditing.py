"""The whole audit: workers, a fresh process, the file with the input, and what is refused."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from torch import nn

from mindgap.corpus.inputs import read_inputs
from mindgap.errors import ModelError
from mindgap.records.audit import Suspicion
from mindgap.report.audit import audit_document, audit_lines
from mindgap.session.session import Session
from tests.audit.models import Classifier, Payload, images


@pytest.fixture(scope="module")
def session() -> Iterator[Session]:
    with Session() as session:
        yield session


def test_a_hidden_branch_is_proved_and_its_input_written(session: Session, tmp_path: Path) -> None:
    model = Payload().eval()
    result = session.audit(model, tmp_path / "out", [images()], budget_s=300, compare=Classifier().eval())
    assert result.verdict is Suspicion.HIDDEN
    witness = result.found.gates[0].witness
    assert witness is not None and witness.seen_again and Path(witness.file).parent == tmp_path / "out"
    _, kwargs = read_inputs(Path(witness.file))
    with torch.no_grad():
        assert bool((model(**kwargs) == 7.0).all(dim=1).any())
    lines = audit_lines(result)
    assert any("hidden branch: %" in line for line in lines) and "1 hidden branch:" in lines[-1]
    assert any("seen again in a fresh process" in line for line in lines)
    document = json.loads(json.dumps(audit_document(result)))
    assert document["schema"] == "mindgap.audit/1" and document["verdict"] == "hidden branch"
    gate = document["gates"][0]
    assert gate["operator"]["node"] in gate["slice"]
    assert gate["operator"]["node"] in [item["operator"]["node"] for item in gate["picture"]]
    (region,) = document["difference"]["only_here"]
    assert region["gates"] == [gate["operator"]["node"]] and region["inputs"] == ["x"]
    assert document["difference"]["matched"] == document["difference"]["nodes"] - len(region["operators"])
    assert any("only in the copy, 1: " in line and "gate %" in line for line in lines)


def test_a_shipped_program_is_honest(session: Session, tmp_path: Path) -> None:
    result = session.audit("smoke:rl-actor-critic", tmp_path / "out", budget_s=300)
    assert result.verdict is Suspicion.NONE and audit_lines(result)[-1].startswith("none found: ")
    assert not (tmp_path / "out").exists()


class Loops(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        while float(x.sum()) < 10:
            x = x + 1
        return x


def test_what_cannot_be_exported_is_refused(session: Session, tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="cannot be exported cannot be audited"):
        session.audit(Loops(), tmp_path, [torch.ones(2)])
    with pytest.raises(ModelError, match="cannot be exported cannot be compared"):
        session.audit(Classifier(), tmp_path, [images()], compare=Loops())


class Alone(nn.Module):
    def forward(self) -> torch.Tensor:
        return torch.ones(3) * 2


def test_a_model_without_inputs_is_refused(session: Session, tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="takes no tensors"):
        session.audit(Alone(), tmp_path, [])

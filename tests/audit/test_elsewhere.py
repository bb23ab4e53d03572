"""Branches that fire on one platform only: looked for with real runtimes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from mindgap.records.audit import Suspicion
from mindgap.records.verdict import Conclusion
from mindgap.report.audit import audit_lines
from mindgap.session.session import Session
from tests.audit.models import Classifier, Guarded, features, images


@pytest.fixture(scope="module")
def session() -> Iterator[Session]:
    with Session() as session:
        yield session


class Underflown(Classifier):
    """A sigmoid far from its middle is small here; onnxruntime, which cuts its argument off, gives zero."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        gate = (torch.sigmoid(-20 - torch.tanh(x[:, 0, 0, :8])) == 0).any(dim=1, keepdim=True)
        return torch.where(gate, 7.0, super().forward(x))


def test_a_gate_that_one_platform_opens_is_a_hidden_branch(session: Session, tmp_path: Path) -> None:
    alone = session.audit(Underflown().eval(), tmp_path, [images()], budget_s=300)
    assert not any(gate.platforms for gate in alone.found.gates)
    result = session.audit(Underflown().eval(), tmp_path, [images()], ["onnxruntime"], budget_s=300)
    assert result.verdict is Suspicion.HIDDEN
    (gate,) = result.found.gates
    (there,) = {item.platform: item for item in gate.platforms}.values()
    assert there.platform == "onnxruntime" and not any(there.eager) and any(there.value) and there.seen_again
    shown = session.check(Underflown().eval(), there.file, ["onnxruntime"])
    assert shown.platforms["onnxruntime"].verdict.conclusion is Conclusion.DIVERGES
    assert any(line.strip().startswith("platform") and "onnxruntime" in line for line in audit_lines(result))


@pytest.mark.parametrize(("model", "inputs"), [(Classifier, images()), (Guarded, features())])
def test_an_honest_model_stays_quiet(
    session: Session, tmp_path: Path, model: type[torch.nn.Module], inputs: torch.Tensor
) -> None:
    result = session.audit(model().eval(), tmp_path, [inputs], ["onnxruntime"], budget_s=300)
    assert result.verdict is Suspicion.NONE and not result.found.gates

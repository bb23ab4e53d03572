"""The same sample alone, among others, in another order and twice (`--invariance`), and a tolerance beside it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from torch import nn

from mindgap.errors import UsageError
from mindgap.platforms.config import load_config
from mindgap.records.verdict import Conclusion
from mindgap.report.summary import check_document, closing_line, invariance_lines, tolerance_lines
from mindgap.session.session import Session

ROOT = Path(__file__).resolve().parents[2]
CONFIG = """
[platform.leaking]
adapter = "tests.session.leaking:Leaking"
env = {{ PYTHONPATH = "{root}" }}
"""


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    folder = tmp_path_factory.mktemp("invariance")
    (folder / "mindgap.toml").write_text(CONFIG.format(root=ROOT))
    with Session(load_config(folder / "mindgap.toml")) as session:
        yield session


class Centred(nn.Module):
    """Looks at the whole batch on purpose."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x - x.mean(0)


def test_samples_that_reach_each_other_are_found(session: Session) -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4)).eval()
    found = session.check(model, [torch.randn(4, 8)], on=["eager@scalar", "leaking"], tolerance=True, invariance=True)
    quiet = (Conclusion.AGREES, Conclusion.ROUNDING)
    own = {item.relation: item.verdict for item in found.invariance["eager@scalar"]}
    assert set(own) == {"twice", "alone", "neighbours", "permuted"}
    assert all(verdict.conclusion in quiet for verdict in own.values()), own
    other = {item.relation: item.verdict for item in found.invariance["leaking"]}
    assert other["alone"].conclusion is Conclusion.DIVERGES and other["neighbours"].conclusion is Conclusion.DIVERGES
    assert other["permuted"].conclusion in quiet and other["twice"].conclusion is Conclusion.AGREES
    assert "contradicts itself" in other["alone"].sentence
    assert found.fails_on({Conclusion.DIVERGES})
    assert "alone diverges: contradicts itself" in invariance_lines(found)[1]
    assert "1 platform contradicts itself in another batch." in closing_line(found)
    (tolerance,) = found.tolerances
    assert tolerance.catches == {"leaking": True} and 0 < tolerance.rtol < 1e-3
    assert "torch.testing.assert_close" in tolerance_lines(found)[0]
    document = check_document([found])
    assert document["tolerances"][0]["line"] == tolerance.line
    assert document["invariance"]["leaking"][1]["verdict"] == "diverges"


def test_a_model_that_looks_at_its_batch_is_asked_only_what_holds(session: Session) -> None:
    found = session.check(Centred(), [torch.randn(4, 8)], on=["eager@scalar"], invariance=True)
    assert {item.relation for item in found.invariance["eager@scalar"]} == {"twice", "permuted"}


class Neighbours(nn.Module):
    """Reads rows by number: its first dimension is no batch."""

    def forward(self, x: torch.Tensor, edges: torch.Tensor) -> torch.Tensor:
        return x[edges].sum(1)


def test_a_model_whose_rows_need_each_other_is_not_asked_for_one_alone(session: Session) -> None:
    edges = torch.tensor([[0, 3], [1, 2], [2, 2], [3, 0]])
    found = session.check(Neighbours(), [torch.randn(4, 8), edges], on=["eager@scalar"], invariance=True)
    assert "alone" not in {item.relation for item in found.invariance["eager@scalar"]}
    assert not found.fails_on({Conclusion.FAILED, Conclusion.DIVERGES})


def test_one_sample_is_no_batch(session: Session) -> None:
    with pytest.raises(UsageError, match="a batch of at least 2 samples"):
        session.check(nn.ReLU(), [torch.randn(1, 8)], on=["eager@scalar"], invariance=True)

"""A recommended tolerance passes what is rounding and catches what is not."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from mindgap.corpus.casing import case_of
from mindgap.corpus.loaded import Loaded
from mindgap.records.check import Tolerance
from mindgap.records.outcome import Outcome, Stage, Status
from mindgap.records.tensors import NamedTensor
from mindgap.verdicts.survey import Surveyed
from mindgap.verdicts.surveyor import survey
from mindgap.verdicts.tolerance import SAFETY, _rounded_up, tolerance_of


def outcome(tensor: torch.Tensor) -> Outcome:
    return Outcome("other", Status.OK, Stage.RUN, outputs=(NamedTensor("output", tensor),))


def recommended(model: nn.Module, x: torch.Tensor, *others: torch.Tensor) -> tuple[Tolerance, torch.Tensor, Surveyed]:
    case = case_of(Loaded("m", (x,), {}, model=model), None, 0)
    known = survey((case.graph, case.constants), case.inputs).output("output")
    assert known is not None
    with torch.no_grad():
        y = model(x)
    return tolerance_of(NamedTensor("output", y), known, [outcome(other) for other in others]), y, known


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_what_rounding_explains_passes_and_a_finding_is_caught(dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 8)).to(dtype).eval()
    x = torch.randn(4, 64, dtype=dtype)
    with torch.no_grad():
        wrong = model(x).clone()
    wrong[2, 3] = -wrong[2, 3] - 1
    found, y, known = recommended(model, x, wrong)
    assert not found.reason and found.safety == SAFETY
    assert known.spread is not None and known.reference is not None
    near = (known.reference + 0.9 * SAFETY * known.spread).to(torch.float64)
    assert torch.allclose(near, y.double(), rtol=found.rtol, atol=found.atol) or dtype is torch.bfloat16
    torch.testing.assert_close(y, y.clone(), rtol=found.rtol, atol=found.atol, equal_nan=True)
    assert found.catches == {"other": True}
    assert f"rtol={found.rtol:g}, atol={found.atol:g}" in found.line
    assert found.rtol < (1e-3 if dtype is torch.float32 else 1.0), "no wider than it must be"


def test_a_small_mistake_that_hides_in_rounding_is_not_called_caught() -> None:
    torch.manual_seed(0)
    model, x = nn.Linear(64, 8).eval(), torch.randn(4, 64)
    with torch.no_grad():
        last_bit = torch.nextafter(model(x), torch.tensor(9.0))
    found, _, _ = recommended(model, x, last_bit)
    assert found.catches == {"other": False}


class Labels(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return (x > 0).to(torch.int64)


def test_whole_numbers_are_compared_exactly() -> None:
    x = torch.tensor([-1.0, 2.0])
    found, _, _ = recommended(Labels(), x, torch.tensor([0, 0]))
    assert (found.rtol, found.atol, found.reason) == (0.0, 0.0, "")
    assert found.catches == {"other": True}


class Cancels(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return (x + 1e8) - 1e8


def test_no_tolerance_where_rounding_leaves_nothing() -> None:
    found, _, _ = recommended(Cancels(), torch.rand(64) * 100)
    assert "ill-conditioned" in found.reason and found.line == ""


def test_two_digits_and_never_less() -> None:
    assert _rounded_up(1.234e-6) == 1.3e-6
    assert _rounded_up(0.0) == 0.0
    assert _rounded_up(9.99) == 10.0

"""The order of accumulation: no order of a sum is ever accused, whatever is summed up; a wrong sum still is."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from mindgap.program import ops
from mindgap.program.inputs import Inputs
from mindgap.records.verdict import Conclusion
from mindgap.verdicts.judge import judge
from mindgap.verdicts.survey import Survey
from mindgap.verdicts.surveyor import survey
from tests.verdicts.programs import ok, surveyed, surveyed_call

NOT_ACCUSED = (Conclusion.AGREES, Conclusion.ROUNDING, Conclusion.HAZARD, Conclusion.UNJUDGED)
KINDS = {torch.float16: 65504.0, torch.bfloat16: 3.38e38, torch.float32: 3.4e38, torch.float64: 1.79e308}
SPECIAL = (0.0, 1.0, -1.0, 0.5, -0.5, 0.1, torch.inf, -torch.inf, torch.nan)


@st.composite
def terms(draw: st.DrawFn) -> torch.Tensor:
    """Rows of terms, ordinary ones, infinities, and those near the ends of their type."""
    dtype = draw(st.sampled_from(list(KINDS)))
    width = draw(st.integers(2, 40))
    size = st.sampled_from([s * KINDS[dtype] for s in (1.0, -1.0, 0.5, -0.5, 1e-3, -1e-3)] + list(SPECIAL))
    plain = st.floats(-100, 100, width=16)
    row = st.lists(st.one_of(plain, plain, size), min_size=width, max_size=width)
    return torch.tensor(draw(st.lists(row, min_size=1, max_size=3)), dtype=torch.float64).to(dtype)


def conclusion(known: Survey, eager: torch.Tensor, other: torch.Tensor) -> Conclusion:
    return judge(ok("eager", eager), [ok("c", other)], known)["c"].verdict.conclusion


def surveyed_here(function: Callable[..., torch.Tensor], *tensors: torch.Tensor) -> Survey:
    """Without an export: there are many."""
    return survey(function, Inputs.of(tensors, {}))


def one_after_the_other(rows: torch.Tensor) -> torch.Tensor:
    total = torch.zeros_like(rows[:, 0])
    for column in rows.unbind(1):
        total = total + column
    return total


def in_pairs(rows: torch.Tensor) -> torch.Tensor:
    while rows.shape[1] > 1:
        half = rows.shape[1] // 2
        rows = torch.cat([rows[:, :half] + rows[:, half : 2 * half], rows[:, 2 * half :]], 1)
    return rows[:, 0]


@settings(max_examples=60, deadline=None)
@given(terms(), st.integers(0, 1 << 16), st.sampled_from([one_after_the_other, in_pairs]))
def test_no_order_of_a_sum_is_accused(
    rows: torch.Tensor, seed: int, add: Callable[[torch.Tensor], torch.Tensor]
) -> None:
    order = torch.randperm(rows.shape[1], generator=torch.Generator().manual_seed(seed))
    assert conclusion(surveyed_here(lambda t: t.sum(1), rows), rows.sum(1), add(rows[:, order])) in NOT_ACCUSED


@settings(max_examples=60, deadline=None)
@given(terms(), st.integers(0, 1 << 16))
def test_no_order_of_a_product_is_accused_nor_what_follows(rows: torch.Tensor, seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    order = torch.randperm(rows.shape[1], generator=generator)
    factors = (torch.randn(rows.shape[1], generator=generator) * 2).to(rows.dtype)
    known = surveyed_here(lambda a, b: torch.tanh(a @ b), rows, factors)
    other = one_after_the_other((rows * factors)[:, order])
    assert conclusion(known, torch.tanh(rows @ factors), torch.tanh(other)) in NOT_ACCUSED


@pytest.mark.parametrize(
    "row, wrong",
    [
        ([3e38, 3e38, 3e38], torch.nan),  # every order gives Inf
        ([3e38, 3e38, 3e38], 3e38),
        ([3e38, 3e37, -3e38], torch.inf),  # no order leaves the range
        ([torch.inf, 3e38, 3e38], torch.nan),  # nothing meets the infinity
        ([torch.inf, -3e38, -3e37], torch.nan),
        ([1e30, -1e30, 1.0], torch.nan),
        ([1e30, -1e30, 1.0], 1e26),
        ([1.0, 2.0, 4.0], 7.001),
    ],
)
def test_what_no_order_gives_is_wrong(row: list[float], wrong: float) -> None:
    rows = torch.tensor([row])
    found = conclusion(surveyed(lambda t: t.sum(1), rows), rows.sum(1), torch.tensor([wrong]))
    assert found in (Conclusion.DIVERGES, Conclusion.UNJUDGED)
    assert found is Conclusion.DIVERGES or row[0] == 1e30  # there noise is larger than the sum


def test_an_element_whose_order_matters_excuses_no_other() -> None:
    rows = torch.tensor([[3e38, 3e38, -3e38], [1.0, 2.0, 3.0]])
    known = surveyed(lambda t: t.sum(1), rows)
    assert conclusion(known, rows.sum(1), torch.tensor([torch.nan, 6.0])) is Conclusion.HAZARD
    assert conclusion(known, rows.sum(1), torch.tensor([torch.nan, 6.1])) is Conclusion.DIVERGES


@pytest.mark.parametrize("op", ["aten.cov.default", "aten.fft_fft2.default"])
def test_whole_numbers_round_as_soon_as_they_are_fractions(op: str) -> None:
    whole = torch.randint(-(2**40), 2**40, (6, 8), generator=torch.Generator().manual_seed(0))
    known, result = surveyed_call(op, whole), ops.resolve(op)(whole)
    largest = result.abs().max()
    assert conclusion(known, result, result + largest * 2**-24) is Conclusion.ROUNDING
    assert conclusion(known, result, result + largest * 2**-10) is Conclusion.DIVERGES


def test_counts_stay_whole_numbers() -> None:
    weights = torch.tensor([1, 2, 3])
    known = surveyed_call("aten.cov.default", torch.tensor([[1, 5, 2], [7, 1, 3]]), fweights=weights)
    assert not known.problem and known.outputs[0].spread is not None

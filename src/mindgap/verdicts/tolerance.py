"""Which tolerance a test should use: as wide as rounding needs on this model and input, and no wider."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import torch

from mindgap.errors import FilesLost, NoSpace
from mindgap.execution.arena import opened
from mindgap.execution.parcel import Constants, Parcel, open_parcel
from mindgap.execution.tasks import Worker, hosting, task
from mindgap.records.check import Tolerance
from mindgap.records.outcome import Outcome
from mindgap.records.tensors import DTYPES, NamedTensor
from mindgap.verdicts.elements import ILL, THRESHOLD, bound, expected_chunks
from mindgap.verdicts.floor import real_view
from mindgap.verdicts.judging import runnable
from mindgap.verdicts.steps import ALL_RUNS
from mindgap.verdicts.survey import Surveyed
from mindgap.verdicts.surveyor import Surveyor

SAFETY: Final = THRESHOLD
"""Noise floors that a tolerance leaves room for: what `check` calls rounding must pass the test."""


@dataclass(frozen=True, slots=True)
class AskTolerance:
    """A case, what the baseline gave, and the platforms that diverge from it."""

    case: Parcel
    baseline: Outcome
    diverging: tuple[Outcome, ...] = ()


@hosting(NoSpace, FilesLost)
@task
def recommend_tolerances(worker: Worker, request: AskTolerance) -> tuple[Tolerance, ...]:
    """A tolerance for each output of a case, from its noise floor."""
    case = open_parcel(request.case, worker.keep(Constants))
    baseline = opened(request.baseline)
    found = Surveyor(runnable(case), case.inputs, case.seed).survey(ALL_RUNS)
    if found.problem:
        return ()
    others = [opened(outcome) for outcome in request.diverging]
    return tuple(
        tolerance_of(item, known, others) for item in baseline.outputs if (known := found.output(item.name)) is not None
    )


def tolerance_of(item: NamedTensor, known: Surveyed, others: Sequence[Outcome]) -> Tolerance:
    """The smallest rtol and atol that pass SAFETY noise floors at every element of an output."""
    values = real_view(item.tensor).reshape(-1)
    reason = _why_not(known)
    rtol = atol = 0.0
    if not reason and values.is_floating_point():
        rtol, atol = _smallest(values.to(torch.float64), known)
    catches = {other.platform: _caught(item, other, rtol, atol) for other in others} if not reason else {}
    return Tolerance(item.name, known.dtype, rtol, atol, SAFETY, catches, reason)


def _why_not(known: Surveyed) -> str:
    if known.distrust:
        return known.distrust
    if known.condition > ILL:
        return "ill-conditioned: rounding moves it as far as any tolerance"
    if not DTYPES[known.dtype].is_floating_point and known.spread is not None and bool((known.spread > 0).any()):
        return "whole numbers that rounding changes: compare the values that they were made from"
    return ""


def _smallest(values: torch.Tensor, known: Surveyed) -> tuple[float, float]:
    """rtol is what the larger half of the values needs, atol what the others need beyond it."""
    finite = values.isfinite()
    if not bool(finite.any()):
        return 0.0, 0.0
    parts = [bound(part, part.reference) for part in expected_chunks(known, DTYPES[known.dtype])
             if part.reference is not None]  # fmt: skip
    allowed = (SAFETY * torch.cat(parts))[finite]
    size = values[finite].abs()
    large = (size >= size.median()) & (size > 0)
    rtol = _rounded_up(float((allowed[large] / size[large]).max())) if bool(large.any()) else 0.0
    return rtol, _rounded_up(float((allowed - rtol * size).clamp(min=0.0).max()))


def _rounded_up(value: float) -> float:
    """With two digits, never less."""
    if value <= 0.0 or not math.isfinite(value):
        return 0.0
    digits = 1 - math.floor(math.log10(value))
    return float(f"{math.ceil(value * 10.0**digits) / 10.0**digits:.2g}")


def _caught(item: NamedTensor, other: Outcome, rtol: float, atol: float) -> bool:
    """Whether `torch.testing.assert_close` with this tolerance tells a platform's output from the baseline's."""
    given = next((candidate.tensor for candidate in other.outputs if candidate.name == item.name), None)
    if given is None or given.shape != item.tensor.shape or given.dtype != item.tensor.dtype:
        return True
    if not (given.is_floating_point() or given.is_complex()):
        return not torch.equal(given, item.tensor)
    wide = torch.complex128 if given.is_complex() else torch.float64  # float8 has no arithmetic of its own
    return not torch.allclose(given.to(wide), item.tensor.to(wide), rtol=rtol, atol=atol, equal_nan=True)

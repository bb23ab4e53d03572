"""Judging a platform against itself: two programs whose outputs must be the same, row by row."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final

import torch

from mindgap.execution.parcel import Parcel
from mindgap.records.outcome import Outcome
from mindgap.records.tensors import NamedTensor
from mindgap.records.verdict import Conclusion, Verdict
from mindgap.verdicts.judge import Judgement
from mindgap.verdicts.steps import STEPS, Step, judge_in_steps
from mindgap.verdicts.survey import Survey

HOLDS: Final = 1e-9
"""Relative distance within which float64 says that a relation holds: far above its own rounding, far below any
real dependence between samples."""


@dataclass(frozen=True, slots=True)
class Relation:
    """Rows of a program's outputs that must equal rows of another program's outputs on the same platform."""

    original: Parcel
    take: tuple[int, ...] = ()
    """Rows of the original; empty is everything."""
    of: tuple[int, ...] = ()
    """The rows of the derived program that must equal them."""
    size: int = 0
    """The batch size of the original: outputs whose first dimension is another do not take part."""


def judge_related(
    relation: Relation, original: Outcome, derived: Outcome, before: Survey, survey_with: Callable[[Step], Survey]
) -> dict[str, Judgement]:
    """A verdict where the relation holds in float64 for some output; nothing where it holds for none.

    `before` is the original program in float64.
    """
    after = survey_with(STEPS[0])
    if before.problem or after.problem or not original.ok:
        return {}
    given = {item.name: item.tensor for item in original.outputs}
    expected: list[NamedTensor] = []
    compared: list[NamedTensor] = []
    for item in derived.outputs:
        if item.name in given and _holds(relation, before, after, item.name):
            wanted = _expected(relation, given[item.name], item.tensor)
            if wanted is not None:
                expected.append(NamedTensor(item.name, wanted))
                compared.append(replace(item, stride=None))
    if not compared:
        return {}
    baseline = replace(derived, outputs=tuple(expected))
    found = judge_in_steps([(baseline, [replace(derived, outputs=tuple(compared))])], survey_with)
    return {name: replace(item, verdict=_in_words(item.verdict)) for name, item in found.items()}


def _holds(relation: Relation, before: Survey, after: Survey, name: str) -> bool:
    first, second = before.output(name), after.output(name)
    if first is None or second is None or first.reference is None or second.reference is None:
        return False
    if first.hazards or second.hazards:
        return False
    wanted = _expected(relation, first.reference, second.reference)
    if wanted is None or wanted.shape != second.reference.shape or wanted.dtype != second.reference.dtype:
        return False
    if not wanted.is_floating_point():
        return torch.equal(wanted, second.reference)
    scale = float(torch.nan_to_num(wanted, 0.0, 0.0, 0.0).abs().max()) if wanted.numel() else 0.0
    return torch.allclose(wanted, second.reference, rtol=HOLDS, atol=HOLDS * scale, equal_nan=True)


def _expected(relation: Relation, original: torch.Tensor, derived: torch.Tensor) -> torch.Tensor | None:
    """The derived program's output as the original says it must be; None where the relation says nothing of it."""
    if not relation.take:
        return original if original.shape == derived.shape else None
    if original.dim() == 0 or derived.dim() == 0 or original.shape[0] != relation.size:
        return None
    if original.shape[1:] != derived.shape[1:] or max(relation.of) >= derived.shape[0]:
        return None
    wanted = derived.clone()
    wanted[list(relation.of)] = original[list(relation.take)].to(derived.dtype)
    return wanted


def _in_words(verdict: Verdict) -> Verdict:
    """The judge speaks of eager; here it is the same platform on the other program."""
    if verdict.conclusion is not Conclusion.DIVERGES:
        return verdict
    ratio = verdict.error_over_bound
    size = "" if ratio is None else f" by {ratio:.2g} noise floors"
    text = f"contradicts itself at {verdict.worst}{size}: two programs that must agree, and do in float64, differ"
    return replace(verdict, sentence=text)

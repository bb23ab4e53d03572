"""Judging a platform against itself: two programs whose outputs must be the same, row by row."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Final

import torch

from mindgap.execution.batch import Question, Relation
from mindgap.platforms.base import Task
from mindgap.records.outcome import Outcome
from mindgap.records.tensors import NamedTensor
from mindgap.records.verdict import Conclusion, Verdict
from mindgap.verdicts.steps import STEPS, Step, judge_in_steps
from mindgap.verdicts.survey import survey
from mindgap.verdicts.surveyed import Survey

HOLDS: Final = 1e-9
"""Relative distance within which float64 says that a relation holds: far above its own rounding, far below any
real dependence between samples."""


def judge_related(
    question: Question, derived: Outcome, original: Task, survey_with: Callable[[Step], Survey]
) -> list[Verdict]:
    """A verdict where the relation holds in float64 for some output; nothing where it holds for none."""
    relation = question.relation
    assert relation is not None and original.program is not None
    before = survey((original.program, original.constants), original.inputs, original.seed, 0)
    after = survey_with(STEPS[0])
    if before.problem or after.problem or not question.baseline.ok:
        return []
    given = {item.name: item.tensor for item in question.baseline.outcome().outputs}
    expected: list[NamedTensor] = []
    compared: list[NamedTensor] = []
    for item in derived.outputs:
        if item.name in given and _holds(relation, before, after, item.name):
            wanted = _expected(relation, given[item.name], item.tensor)
            if wanted is not None:
                expected.append(NamedTensor(item.name, wanted))
                compared.append(replace(item, stride=None))
    if not compared:
        return []
    baseline = replace(derived, outputs=tuple(expected))
    verdicts = judge_in_steps([(baseline, [replace(derived, outputs=tuple(compared))])], survey_with)
    return [_in_words(verdict) for verdict in verdicts.values()]


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
    size = (
        "" if verdict.error_over_bound is None else f" by {verdict.error_over_bound:.2g} times what rounding explains"
    )
    text = f"contradicts itself at {verdict.worst}{size}: two programs that must agree, and do in float64, differ"
    return replace(verdict, sentence=text)

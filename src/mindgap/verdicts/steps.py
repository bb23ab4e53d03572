"""As much evidence as a verdict needs, and no more.

More noise runs only widen what rounding explains (a decision that only a later run flips aside). So a candidate that is
found right with few stays right with many, and only what still looks wrong is worth the next step:

    0 runs   float64 alone: everything within a few last bits of it is rounding
    1 run    a first noise floor: nearly everything that rounding explains is within it
    2 runs   and nearly all of the rest
    4 runs   the noise floor, hazards, ill-conditioning
    8 runs   a floor that holds for single elements: the only one that a defect is reported from
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from mindgap.records.outcome import Outcome
from mindgap.records.tensors import same_outputs
from mindgap.records.verdict import Conclusion, Kind, Verdict
from mindgap.verdicts.judge import judge
from mindgap.verdicts.surveyed import THOROUGH, Survey

STEPS: Final = (0, 1, 2, 4, 8)
"""Noise runs of each step (docs/decisions/0003)."""

Group = tuple[Outcome, Sequence[Outcome]]
"""A baseline, and the candidates that are compared with it."""


def judge_in_steps(
    groups: Sequence[Group], survey_with: Callable[[int], Survey | None], steps: Sequence[int] = STEPS
) -> dict[str, Verdict]:
    """One verdict a candidate, by platform name; surveys are made only as far as a verdict depends on them."""
    if not any(disagree(base, other) for base, others in groups for other in others):
        return _judged(groups, None)
    verdicts: dict[str, Verdict] = {}
    for runs in steps:
        survey = survey_with(runs)
        verdicts = _judged(groups, survey)
        if survey is None or survey.problem or all(_settled(verdict, runs) for verdict in verdicts.values()):
            break
    return verdicts


def disagree(base: Outcome, other: Outcome) -> bool:
    """Whether both ran, and not with the same bits: only then a reference can decide anything."""
    return base.ok and other.ok and not same_outputs(base.outputs, other.outputs)


def _judged(groups: Sequence[Group], survey: Survey | None) -> dict[str, Verdict]:
    verdicts: dict[str, Verdict] = {}
    for base, others in groups:
        verdicts |= judge(base, others, survey)
    return verdicts


_NEAR: Final = (Conclusion.AGREES, Conclusion.ROUNDING, Conclusion.FAILED, Conclusion.UNSTABLE)


def _settled(verdict: Verdict, runs: int) -> bool:
    """Whether more noise could not change it."""
    if verdict.conclusion in _NEAR or verdict.kind in (Kind.VALIDATION, Kind.DTYPE, Kind.SHAPE):
        return True
    return runs >= THOROUGH and verdict.conclusion is not Conclusion.DIVERGES

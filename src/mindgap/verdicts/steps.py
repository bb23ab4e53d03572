"""As much evidence as a verdict needs, and no more.

More noise runs only widen what rounding explains, except for a decision that only a later run flips. So a candidate
that is right after few runs stays right after many, and only what still looks wrong is worth the next step:

    nothing  a few last bits away from eager is rounding
    0 runs   float64 alone: everything within a few last bits of it is rounding
    1 run    a first noise floor: nearly everything that rounding explains is within it
    2 runs   and nearly all of the rest
    4 runs   the noise floor, hazards, ill-conditioning
    8 runs   a floor that holds for single elements: the only one that a defect is reported from

Float64 decides who is wrong. Where noise alone moves eager as far as the candidate is off, nobody is wrong, and a
campaign skips the float64 run (`BRIEF`); for a person who looks at one model it is worth the time (`STEPS`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

import torch

from mindgap.records.outcome import Outcome
from mindgap.records.tensors import NamedTensor, same_outputs
from mindgap.records.verdict import Conclusion, Kind
from mindgap.verdicts.elements import THRESHOLD
from mindgap.verdicts.judge import Judgement, judge, refuses
from mindgap.verdicts.survey import THOROUGH, Survey
from mindgap.verdicts.unspecified.precision import SIGNED_ZERO

ALL_RUNS: Final = 8
"""Noise runs of the last step: 4 are enough for norms, 8 for single elements (docs/decisions/0003)."""


class Step(NamedTuple):
    """What is asked of a survey."""

    runs: int
    """With noise."""
    reference: bool = True
    """Whether also in float64."""

    @property
    def is_last(self) -> bool:
        return self.runs == ALL_RUNS


STEPS: Final = (Step(0), Step(1), Step(2), Step(4), Step(ALL_RUNS))
BRIEF: Final = (Step(0, reference=False), Step(1, reference=False), *STEPS[1:])
FULL: Final = (Step(ALL_RUNS),)
"""Where errors are to be compared with each other: fewer runs make a lower floor, so the same error is more of them."""

Group = tuple[Outcome, Sequence[Outcome]]
"""A baseline, and the candidates that are compared with it."""


def judge_in_steps(
    groups: Sequence[Group],
    survey_with: Callable[[Step], Survey | None],
    steps: Sequence[Step] = STEPS,
    refusal_agrees: bool = False,
) -> dict[str, Judgement]:
    """One judgement per candidate, by platform name; surveys are made only as far as a verdict depends on them."""
    judged: dict[str, Judgement] = {}
    if not any(disagree(base, other) or is_odd(base, other) for base, others in groups for other in others):
        return judge_all(groups, None, refusal_agrees)
    for step in steps:
        if step == BRIEF[0]:
            if all(map(_in_the_last_bits, groups)):
                judged = judge_all(groups, None, refusal_agrees)
                if all(map(_is_near, judged.values())):
                    break
            continue
        survey = survey_with(step)
        judged = judge_all(groups, survey, refusal_agrees)
        if survey is None or survey.problem or all(_settled(found, step) for found in judged.values()):
            break
    return judged


def _in_the_last_bits(group: Group) -> bool:
    """A quick check whether all outputs agree up to a few last bits: most that differ, differ by more."""
    base, others = group
    if not base.ok:
        return True
    for other in others:
        if other.ok and len(other.outputs) != len(base.outputs):
            return False
        if other.ok and not all(map(_is_close, base.outputs, other.outputs)):
            return False
    return True


def _is_close(one: NamedTensor, other: NamedTensor) -> bool:
    first, second = one.tensor, other.tensor
    if one.name != other.name or first.dtype != second.dtype or first.shape != second.shape:
        return False
    if not first.is_floating_point() or first.element_size() == 1:
        return torch.equal(first, second)
    bound = first.abs().mul_(THRESHOLD * torch.finfo(first.dtype).eps)
    return bool(((first - second).abs_() <= bound).all())


def disagree(base: Outcome, other: Outcome) -> bool:
    """Whether both ran, and not with the same bits: only then a reference can decide anything."""
    return base.ok and other.ok and not same_outputs(base.outputs, other.outputs)


def is_odd(base: Outcome, other: Outcome) -> bool:
    """Whether one refuses what the other accepts, or gives something else on a second run: a rule may allow it."""
    return refuses(base, other) or (base.ok and other.ok and other.stable is False)


def judge_all(groups: Sequence[Group], survey: Survey | None, refusal_agrees: bool = False) -> dict[str, Judgement]:
    """One judgement per candidate, by platform name, with the evidence of one survey."""
    judged: dict[str, Judgement] = {}
    for base, others in groups:
        judged |= judge(base, others, survey, refusal_agrees)
    return judged


_NEAR: Final = (Conclusion.AGREES, Conclusion.ROUNDING)


def _is_near(found: Judgement) -> bool:
    """Whether no output is farther away than rounding explains, signs of zeros apart: no evidence changes those."""
    if found.verdict.conclusion in (*_NEAR, Conclusion.FAILED):
        return True
    same = found.verdict.conclusion is Conclusion.HAZARD
    return same and all(c.conclusion in _NEAR or c.rule == SIGNED_ZERO for c in found.comparisons)


def _settled(found: Judgement, step: Step) -> bool:
    """Whether more evidence could not change it."""
    verdict = found.verdict
    if _is_near(found):  # near eager, and both far from float64: a larger floor may tell that neither is
        return step.is_last or all(c.far is None for c in found.comparisons)
    if step.reference and verdict.kind in (Kind.VALIDATION, Kind.DTYPE, Kind.SHAPE):
        return True
    return step.runs >= THOROUGH and verdict.conclusion is not Conclusion.DIVERGES

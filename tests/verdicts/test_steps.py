"""Evidence in steps: only as much noise as a verdict needs, and the same verdict as with all of it."""

from __future__ import annotations

import pytest
import torch

from mindgap.bench.small_programs import small_program
from mindgap.program.interpret import Executable
from mindgap.records.outcome import Outcome, Stage, Status
from mindgap.records.tensors import NamedTensor
from mindgap.records.verdict import Conclusion
from mindgap.verdicts.judge import judge
from mindgap.verdicts.steps import STEPS, judge_in_steps
from mindgap.verdicts.survey import Surveyor, survey


class Asked:
    """A small program whose surveys are counted."""

    def __init__(self, seed: int) -> None:
        self.item = small_program(seed)
        self.runs: list[int] = []

    def eager(self) -> torch.Tensor:
        executable = Executable(self.item.program, self.item.constants)
        result = executable.run(self.item.inputs.copies())
        return result[0] if isinstance(result, list | tuple) else result

    def survey(self, runs: int):
        self.runs.append(runs)
        return survey((self.item.program, self.item.constants), self.item.inputs, 0, runs)


def outcome(asked: Asked, platform: str, tensor: torch.Tensor) -> Outcome:
    name = next(name for name, _ in asked.item.program.output_leaves())
    return Outcome(platform, Status.OK, Stage.RUN, outputs=(NamedTensor(name, tensor),))


def conclude(asked: Asked, candidate: torch.Tensor) -> Conclusion:
    eager, other = outcome(asked, "eager", asked.eager()), outcome(asked, "c", candidate)
    return judge_in_steps([(eager, [other])], asked.survey)["c"].conclusion


def test_equal_bits_need_no_survey():
    asked = Asked(0)
    assert conclude(asked, asked.eager()) is Conclusion.AGREES
    assert asked.runs == []


def test_what_is_near_float64_needs_no_noise():
    asked = Asked(3)
    wide = asked.survey(0).outputs[0].reference.to(torch.float32)
    asked.runs.clear()
    candidate = torch.nextafter(wide, torch.full_like(wide, torch.inf))
    found = conclude(asked, candidate)
    assert found is Conclusion.ROUNDING
    assert asked.runs == list(STEPS[: len(asked.runs)])  # eager itself may be farther away than a few last bits
    assert asked.runs[-1] <= 2


def test_a_defect_is_reported_from_all_runs_only():
    asked = Asked(5)
    assert conclude(asked, asked.eager() * 1.5 + 1) is Conclusion.DIVERGES
    assert tuple(asked.runs) == STEPS


@pytest.mark.parametrize("seed", range(40))
def test_steps_find_what_all_runs_find(seed):
    asked = Asked(seed)
    eager = asked.eager()
    whole = survey((asked.item.program, asked.item.constants), asked.item.inputs, 0, STEPS[-1])
    generator = torch.Generator().manual_seed(seed)
    for size in (1e-7, 1e-6, 1e-5, 1e-3):
        candidate = eager * (1 + size * torch.randn(eager.shape, generator=generator))
        at_once = judge(outcome(asked, "eager", eager), [outcome(asked, "c", candidate)], whole)["c"].conclusion
        assert (conclude(asked, candidate) is Conclusion.DIVERGES) == (at_once is Conclusion.DIVERGES)


@pytest.mark.parametrize("seed", range(20))
def test_a_survey_that_goes_on_equals_one_made_at_once(seed):
    """Evidence is added, never made again: the last step knows what a survey of all runs would."""
    item = small_program(seed)
    surveyor = Surveyor((item.program, item.constants), item.inputs, 0)
    for runs in STEPS:
        found = surveyor.survey(runs, more=runs < STEPS[-1])
    whole = survey((item.program, item.constants), item.inputs, 0, STEPS[-1])
    assert found.rules == whole.rules and found.runs == whole.runs
    for one, other in zip(found.outputs, whole.outputs, strict=True):
        assert one.condition == other.condition and one.distrust == other.distrust
        assert set(one.hazards) == set(other.hazards)
        for name in ("reference", "spread", "stepwise", "flips"):
            left, right = getattr(one, name), getattr(other, name)
            assert (left is None) == (right is None)
            assert left is None or torch.equal(torch.nan_to_num(left), torch.nan_to_num(right))

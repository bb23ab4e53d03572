"""Evidence in steps: only as much noise as a verdict needs, and the same verdict as with all of it."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from mindgap.bench.small_programs import small_program
from mindgap.program.interpret import Executable
from mindgap.records.outcome import Outcome, Stage, Status
from mindgap.records.tensors import NamedTensor
from mindgap.records.verdict import Conclusion
from mindgap.verdicts.judge import judge
from mindgap.verdicts.runner import Call, ProgramRunner
from mindgap.verdicts.steps import ALL_RUNS, BRIEF, STEPS, Step, judge_in_steps
from mindgap.verdicts.survey import Survey
from mindgap.verdicts.surveyor import Surveyor, survey
from tests.verdicts.programs import program


class Asked:
    """A small program whose surveys are counted."""

    def __init__(self, seed: int) -> None:
        self.item = small_program(seed)
        self.asked: list[Step] = []

    def eager(self) -> torch.Tensor:
        executable = Executable(self.item.program, self.item.constants)
        result = executable.run(self.item.inputs.copies())
        return result[0] if isinstance(result, list | tuple) else result

    def survey(self, step: Step):
        self.asked.append(step)
        surveyor = Surveyor((self.item.program, self.item.constants), self.item.inputs, 0)
        return surveyor.survey(step.runs, reference=step.reference)


def outcome(asked: Asked, platform: str, tensor: torch.Tensor) -> Outcome:
    name = next(name for name, _ in asked.item.program.output_leaves())
    return Outcome(platform, Status.OK, Stage.RUN, outputs=(NamedTensor(name, tensor),))


def conclude(asked: Asked, candidate: torch.Tensor, steps: tuple[Step, ...] = STEPS) -> Conclusion:
    eager, other = outcome(asked, "eager", asked.eager()), outcome(asked, "c", candidate)
    return judge_in_steps([(eager, [other])], asked.survey, steps)["c"].verdict.conclusion


def test_equal_bits_need_no_survey():
    asked = Asked(0)
    assert conclude(asked, asked.eager()) is Conclusion.AGREES
    assert asked.asked == []


def test_what_is_near_float64_needs_no_noise():
    asked = Asked(3)
    wide = asked.survey(STEPS[0]).outputs[0].reference.to(torch.float32)
    asked.asked.clear()
    candidate = torch.nextafter(wide, torch.full_like(wide, torch.inf))
    found = conclude(asked, candidate)
    assert found is Conclusion.ROUNDING
    assert asked.asked == list(STEPS[: len(asked.asked)])  # eager itself may be farther away than a few last bits
    assert asked.asked[-1].runs <= 2


def test_a_defect_is_reported_from_all_runs_only():
    asked = Asked(5)
    assert conclude(asked, asked.eager() * 1.5 + 1) is Conclusion.DIVERGES
    assert tuple(asked.asked) == STEPS


def test_a_campaign_asks_for_nothing_where_only_the_last_bits_differ():
    asked = Asked(3)
    eager = asked.eager()
    assert conclude(asked, torch.nextafter(eager, torch.full_like(eager, torch.inf)), BRIEF) is Conclusion.ROUNDING
    assert asked.asked == []


def test_a_campaign_asks_for_float64_only_where_noise_does_not_explain_it():
    asked = Asked(3)
    surveyed = asked.survey(BRIEF[1]).outputs[0]
    asked.asked.clear()
    assert surveyed.reference is None and surveyed.spread is not None
    assert conclude(asked, asked.eager() + 2 * surveyed.spread, BRIEF) is Conclusion.ROUNDING
    assert all(not step.reference for step in asked.asked)
    assert conclude(asked, asked.eager() * 1.5 + 1, BRIEF) is Conclusion.DIVERGES
    assert tuple(asked.asked[-len(STEPS) :]) == (BRIEF[1], *STEPS[1:])


def test_an_output_that_eager_does_not_have_is_not_settled_by_a_glance():
    asked = Asked(3)
    eager = outcome(asked, "eager", asked.eager())
    nearly = torch.nextafter(asked.eager(), torch.full_like(asked.eager(), torch.inf))
    extra = NamedTensor("input:x", torch.zeros(3))
    other = replace(outcome(asked, "c", nearly), outputs=(*outcome(asked, "c", nearly).outputs, extra))
    assert judge_in_steps([(eager, [other])], asked.survey, BRIEF)["c"].verdict.conclusion is Conclusion.DIVERGES


def test_signs_of_zeros_are_settled_at_a_glance_unless_another_output_is_open():
    zeros, flipped = NamedTensor("[0]", torch.tensor([0.0])), NamedTensor("[0]", torch.tensor([-0.0]))
    known, off = NamedTensor("[1]", torch.tensor([3.0])), NamedTensor("[1]", torch.tensor([4.0]))
    subject, inputs = program(lambda a, b: (a * 1, torch.floor(b)), torch.tensor([0.0]), torch.tensor([3.5]))
    asked: list[Step] = []

    def survey_with(step: Step) -> Survey:
        asked.append(step)
        return Surveyor(subject, inputs, 0).survey(step.runs, reference=step.reference)

    def conclude_of(second: NamedTensor) -> Conclusion:
        eager, other = (
            Outcome(name, Status.OK, Stage.RUN, outputs=outputs)
            for name, outputs in (("eager", (zeros, known)), ("c", (flipped, second)))
        )
        return judge_in_steps([(eager, [other])], survey_with, BRIEF)["c"].verdict.conclusion

    assert conclude_of(known) is Conclusion.HAZARD and asked == []
    assert conclude_of(off) is Conclusion.DIVERGES


@pytest.mark.parametrize("steps", [STEPS, BRIEF])
@pytest.mark.parametrize("seed", range(40))
def test_steps_find_what_all_runs_find(seed, steps):
    asked = Asked(seed)
    eager = asked.eager()
    whole = survey((asked.item.program, asked.item.constants), asked.item.inputs, 0, ALL_RUNS)
    generator = torch.Generator().manual_seed(seed)
    for size in (1e-7, 1e-6, 1e-5, 1e-3):
        candidate = eager * (1 + size * torch.randn(eager.shape, generator=generator))
        at_once = judge(outcome(asked, "eager", eager), [outcome(asked, "c", candidate)], whole)["c"].verdict.conclusion
        assert (conclude(asked, candidate, steps) is Conclusion.DIVERGES) == (at_once is Conclusion.DIVERGES)


@pytest.mark.parametrize("given", ["nothing", "eager", "another"])
@pytest.mark.parametrize("seed", range(20))
def test_a_survey_that_goes_on_equals_one_made_at_once(seed, given):
    """Evidence is added, never made again: the last step knows what a survey of all runs would.

    Whatever somebody else says that eager gave: it saves the first step a run, and is looked into after that.
    """
    item = small_program(seed)
    said = None
    if given != "nothing":
        ran = ProgramRunner(item.program, item.constants, item.inputs, 0).run(Call.make)
        said = {name: tensor if given == "eager" else tensor + 1 for name, tensor in ran.items()}
    surveyor = Surveyor((item.program, item.constants), item.inputs, 0, said)
    for step in BRIEF[1:]:
        found = surveyor.survey(step.runs, not step.is_last, step.reference)
    whole = survey((item.program, item.constants), item.inputs, 0, ALL_RUNS)
    assert found.rules == whole.rules and found.runs == whole.runs
    for one, other in zip(found.outputs, whole.outputs, strict=True):
        assert one.condition == other.condition and one.distrust == other.distrust
        assert set(one.hazards) == set(other.hazards)
        for name in ("reference", "spread", "stepwise", "flips"):
            left, right = getattr(one, name), getattr(other, name)
            assert (left is None) == (right is None)
            assert left is None or torch.equal(torch.nan_to_num(left), torch.nan_to_num(right))


def test_what_eager_gave_here_need_not_be_run_again():
    item = small_program(0)
    given = ProgramRunner(item.program, item.constants, item.inputs, 0).run(Call.make)
    assert all(tensor.is_floating_point() for tensor in given.values())
    runs = []

    class Counting(Surveyor):
        def _look(self):
            runs.append("plain")
            super()._look()

    surveyor = Counting((item.program, item.constants), item.inputs, 0, given)
    brief = surveyor.survey(1, True, reference=False)
    assert runs == []
    whole = Surveyor((item.program, item.constants), item.inputs, 0).survey(1, True, reference=False)
    assert torch.equal(brief.outputs[0].spread, whole.outputs[0].spread)

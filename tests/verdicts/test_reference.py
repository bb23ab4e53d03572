"""The two right answers: everything in float64, and each step rounded."""

from __future__ import annotations

import pytest
import torch

from mindgap.program.inputs import Inputs
from mindgap.records.verdict import Blame, Conclusion, Kind
from mindgap.verdicts.judge import judge
from mindgap.verdicts.survey import THOROUGH
from mindgap.verdicts.surveyor import Surveyor, survey
from tests.verdicts.programs import ok, program, surveyed


def verdict(survey, eager, candidate):
    return judge(ok("eager", eager), [ok("c", candidate)], survey)["c"].verdict


def test_the_reference_is_float64_and_the_default_type_is_restored():
    x = torch.linspace(0.1, 1, 8)
    known = surveyed(lambda t: t.sin() / torch.full((8,), 3.0), x).outputs[0]
    assert known.reference.dtype is torch.float64 and known.dtype == "float32"
    assert torch.allclose(known.reference, x.double().sin() / 3, rtol=1e-15)
    assert torch.get_default_dtype() is torch.float32


def test_integers_keep_their_wrap():
    x = torch.tensor([120], dtype=torch.int8)
    assert surveyed(lambda t: t + 10, x).outputs[0].reference.tolist() == [-126]


def test_an_intermediate_overflow_in_half_is_nobodys_fault():
    x = torch.full((4,), 60000.0).half()
    found = verdict(surveyed(lambda t: (t * 2) / 2, x), (x * 2) / 2, x)
    assert (found.conclusion, found.rule) == (Conclusion.HAZARD, "intermediate-precision")


def test_an_overflow_inside_one_operator_is_a_fault():
    x = torch.full((4,), 89.0)
    known = surveyed(torch.sinh, x)
    right, wrong = torch.full((4,), 2.244806e38), torch.full((4,), float("inf"))
    right = known.outputs[0].reference.float()
    found = verdict(known, wrong, right)
    assert (found.conclusion, found.kind, found.blame) == (Conclusion.DIVERGES, Kind.NONFINITE, Blame.EAGER)
    assert verdict(known, right, wrong).blame is Blame.CANDIDATE


def test_an_overflow_that_is_due_is_right():
    x = torch.tensor([1e30])
    known = surveyed(lambda t: t * t, x)
    assert known.outputs[0].reference.isfinite().all()
    assert verdict(known, x * x, torch.tensor([float("inf")])).conclusion is Conclusion.AGREES
    assert verdict(known, x * x, torch.tensor([1e30])).conclusion is Conclusion.DIVERGES


@pytest.mark.parametrize("function", [torch.nan_to_num, lambda t: t.clamp(max=torch.finfo(torch.float32).max)])
def test_an_infinity_is_wrong_where_the_largest_number_is_due(function):
    x = torch.tensor([float("inf"), 1.0, 2.0])
    known = surveyed(function, x)
    assert verdict(known, function(x), function(x)).conclusion is Conclusion.AGREES
    found = verdict(known, function(x), x)
    assert (found.conclusion, found.kind, found.blame) == (Conclusion.DIVERGES, Kind.NONFINITE, Blame.CANDIDATE)


def test_a_rounded_decision_in_half_is_not_a_defect():
    x = torch.tensor([0.01, 1.0, 0.02]).half()
    known = surveyed(lambda t: torch.floor(torch.cos(t)), x)
    eager, wide = torch.floor(torch.cos(x)), torch.floor(torch.cos(x.float())).half()
    assert not torch.equal(eager, wide)
    assert verdict(known, eager, wide).conclusion is not Conclusion.DIVERGES


def test_an_exact_decision_stays_judgeable():
    x = torch.tensor([0.5, 1.5, 2.5])
    known = surveyed(lambda t: torch.floor(t + 0.5), x)
    found = verdict(known, torch.floor(x + 0.5), torch.tensor([0.0, 2.0, 3.0]))
    assert (found.conclusion, found.blame) == (Conclusion.DIVERGES, Blame.CANDIDATE)


def test_float64_keeps_its_noise_where_another_output_flips():
    """What is exact cannot be told from a float64 value itself, unless it is a number of float32."""
    x = torch.tensor([0.1, 0.7], dtype=torch.float64)
    found = surveyed(lambda t: (t * 3, (t * 3 > 0.3) | (t < 0), (t * 0 + 0.5 + 0.5).floor()), x)
    assert (found.outputs[0].spread > 0).all()
    assert found.outputs[2].spread is None or not found.outputs[2].spread.any()


@pytest.mark.parametrize("steps", [2, 11, 51, 101, 1001])
@pytest.mark.parametrize("ends", [(-1, 1), (-2.0, 1.0), (0, 7), (1000.0, 1001.0)])
def test_evenly_spaced_numbers_round_in_proportion_to_their_ends(ends, steps):
    """Near zero nobody hits the last bit: eager misses the middle of -1 to 1 by 2e-8, and float64 by 2e-17."""
    zeros, eager = torch.zeros(steps), torch.linspace(*ends, steps)
    known = surveyed(lambda t: torch.linspace(*ends, steps) + t, zeros)
    exact = known.outputs[0].reference.float()
    found = verdict(known, eager, exact)
    assert found.conclusion in (Conclusion.AGREES, Conclusion.ROUNDING, Conclusion.HAZARD)
    wrong = exact + 40 * 2**-23 * max(map(abs, ends))
    assert verdict(known, eager, wrong).conclusion is Conclusion.DIVERGES


def test_singular_problems_are_ill_conditioned_and_name_the_operator():
    places = torch.arange(10.0)
    x = 1.0 / (places.unsqueeze(0) + places.unsqueeze(1) + 1)
    known = surveyed(lambda t: torch.linalg.inv(t), x)
    assert known.outputs[0].condition > 0.1 and "inv" in known.outputs[0].amplifier
    value = torch.linalg.inv(x)
    found = verdict(known, value, value * 2)
    assert found.conclusion is Conclusion.UNJUDGED and "ill-conditioned" in found.sentence


def test_a_program_that_refuses_has_a_problem_and_no_outputs():
    subject = (lambda t: t.reshape(3), Inputs.of((torch.ones(4),), {}))
    found = survey(*subject)
    assert not found.outputs and "shape" in found.problem


def test_random_numbers_are_the_same_in_the_reference():
    x = torch.ones(64)
    known = surveyed(lambda t: torch.nn.functional.dropout(t, 0.5, True) * 3, x, seed=3).outputs[0]
    torch.manual_seed(3)
    assert torch.equal(known.reference.float(), torch.nn.functional.dropout(x, 0.5, True) * 3)


def test_changed_inputs_are_surveyed():
    def change(t):
        t.mul_(3.0)
        return t.sum()

    x = torch.rand(4)
    subject, inputs = program(change, x)
    for kind in (subject, change):
        found = survey(kind, inputs, 0, 2)
        names = [item.name for item in found.outputs]
        assert any(name.startswith("input:") for name in names)
        assert torch.allclose(found.outputs[-1].reference, x.double() * 3)


def test_modules_in_training_start_every_run_from_the_same_state():
    module = torch.nn.BatchNorm1d(4).train()
    before = module.running_mean.clone()
    found = survey(module, Inputs.of((torch.randn(8, 4),), {}), 0, 3)
    assert torch.equal(module.running_mean, before) and found.outputs[0].condition < 1e-4


def test_whether_more_runs_may_follow_does_not_change_the_condition():
    inputs = Inputs.of((torch.linspace(1.0, 2.0, 256),), {})
    found = [Surveyor(lambda t: (t - 1.5) * 1e3, inputs).survey(THOROUGH, more).outputs[0] for more in (False, True)]
    assert found[0].condition == found[1].condition > 0

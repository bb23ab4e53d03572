"""Verdicts from outcomes: values, structure, validation, stability, groups and the sentence."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch

from mindgap.program.inputs import Inputs
from mindgap.records.outcome import Stage, Status
from mindgap.records.tensors import NamedTensor
from mindgap.records.verdict import Blame, Conclusion, Kind
from mindgap.verdicts.judge import judge
from mindgap.verdicts.survey import Survey
from mindgap.verdicts.surveyor import survey as make_survey
from tests.verdicts.programs import failed, ok, surveyed, surveyed_call

X = torch.linspace(0.1, 3.0, 16)
EXP = surveyed(torch.exp, X)


def verdict(eager, candidate, survey=EXP):
    return judge(eager, [candidate], survey)[candidate.platform].verdict


def test_same_bits_agree():
    assert verdict(ok("eager", X.exp()), ok("c", X.exp())).conclusion is Conclusion.AGREES


def test_last_bits_are_rounding():
    found = verdict(ok("eager", X.exp()), ok("c", X.exp() * (1 + 2**-23)))
    assert found.conclusion is Conclusion.ROUNDING
    assert found.error_over_bound is not None and found.error_over_bound < 3


def test_a_wrong_element_is_found_with_place_blame_and_size():
    wrong = X.exp()
    wrong[3] = 6.0
    found = verdict(ok("eager", X.exp()), ok("c", wrong))
    assert (found.conclusion, found.kind, found.blame) == (Conclusion.DIVERGES, Kind.VALUE, Blame.CANDIDATE)
    assert found.worst == "output[3]"
    assert found.error_over_bound > 1e5 and found.eager_error_over_bound < 2
    assert "output[3] is 6" in found.sentence and "c is wrong" in found.sentence


def test_the_worst_elements_are_named_the_worst_first():
    wrong = X.exp()
    wrong[1:13] *= 2
    wrong[5] = float("nan")
    found = verdict(ok("eager", X.exp()), ok("c", wrong)).elements
    assert len(found) == 8 and found[0].place == "output[5]" and found[0].candidate == "nan"
    errors = [element.error_over_bound for element in found]
    assert errors == sorted(errors, reverse=True) and errors[0] == float("inf") and errors[-1] > 1e5
    assert float(found[1].candidate) == pytest.approx(2 * float(found[1].eager), rel=1e-5)
    assert float(found[1].float64) == pytest.approx(float(found[1].eager), rel=1e-5)
    assert verdict(ok("eager", X.exp()), ok("c", X.exp() * (1 + 2**-23))).elements == ()


def test_values_are_written_so_that_they_can_be_told_apart():
    x = torch.tensor([1e22, 2.0], dtype=torch.float64)
    moved = x.clone()
    moved[0] *= 1 + 1e-12
    found = verdict(ok("eager", x), ok("c", moved), surveyed(torch.abs, x)).elements[0]
    assert found.candidate != found.eager and float(found.candidate) == float(moved[0])


def test_eager_is_blamed_when_it_is_farther_from_float64():
    wrong = X.exp()
    wrong[3] = 6.0
    found = verdict(ok("eager", wrong), ok("c", X.exp()))
    assert (found.conclusion, found.blame) == (Conclusion.DIVERGES, Blame.EAGER)
    assert "eager is wrong" in found.sentence


def test_both_are_blamed_when_neither_is_right():
    first, second = X.exp(), X.exp()
    first[3], second[3] = 6.0, 9.0
    assert verdict(ok("eager", first), ok("c", second)).blame is Blame.BOTH


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), -float("inf")])
def test_a_strange_value_is_its_own_kind(bad):
    wrong = X.exp()
    wrong[3] = bad
    found = verdict(ok("eager", X.exp()), ok("c", wrong))
    assert (found.conclusion, found.kind, found.blame) == (Conclusion.DIVERGES, Kind.NONFINITE, Blame.CANDIDATE)


def test_nan_bits_do_not_count():
    nan = torch.tensor([float("nan"), 1.0])
    survey = surveyed(torch.neg, -nan)
    flipped = (nan.view(torch.int32) ^ torch.tensor([-(2**31), 0]).int()).view(torch.float32)
    assert verdict(ok("eager", nan), ok("c", flipped), survey).conclusion is Conclusion.AGREES


@pytest.mark.parametrize("known", [True, False])
def test_the_sign_of_zero_is_a_hazard(known):
    survey = surveyed(torch.neg, torch.tensor([0.0, 1.0])) if known else None
    found = verdict(ok("eager", torch.tensor([-0.0, -1.0])), ok("c", torch.tensor([0.0, -1.0])), survey)
    assert (found.conclusion, found.kind, found.rule) == (Conclusion.HAZARD, Kind.SIGNED_ZERO, "signed-zero")


def test_the_sign_of_zero_is_seen_among_rounding_and_hides_no_defect():
    x = torch.tensor([-0.0, 1.0, 2.0])
    survey = surveyed(lambda t: t * 3, x)
    nearly, wrong = torch.tensor([0.0, 3 * (1 + 2**-23), 6.0]), torch.tensor([0.0, 3.0, 7.0])
    assert verdict(ok("eager", x * 3), ok("c", nearly), survey).kind is Kind.SIGNED_ZERO
    found = verdict(ok("eager", x * 3), ok("c", wrong), survey)
    assert (found.conclusion, found.kind) == (Conclusion.DIVERGES, Kind.VALUE)


def test_a_random_output_of_another_shape_or_dtype_is_a_defect():
    x = torch.zeros(16)
    survey = surveyed(lambda t: torch.rand(16) + t, x)
    assert verdict(ok("eager", x), ok("c", torch.rand(16)), survey).conclusion is Conclusion.HAZARD
    for other, kind in ((torch.rand(()), Kind.SHAPE), (torch.rand(16).double(), Kind.DTYPE)):
        found = verdict(ok("eager", x), ok("c", other), survey)
        assert (found.conclusion, found.kind) == (Conclusion.DIVERGES, kind)


def test_another_shape_is_a_hazard_where_chance_decides_it():
    x = torch.arange(64.0)
    survey = make_survey(lambda t: t[torch.rand(64) > 0.5], Inputs.of([x], {}))
    shape = survey.outputs[0].reference.shape
    found = verdict(ok("eager", torch.zeros(shape)), ok("c", torch.zeros(shape[0] + 1)), survey)
    assert (found.conclusion, found.kind, found.rule) == (Conclusion.HAZARD, Kind.SHAPE, "random-stream")


def test_the_sign_of_zero_counts_where_an_operator_amplifies_it():
    x = torch.tensor([-1.0, 1.0])
    survey = surveyed(lambda t: 1.0 / (t * 0), x)
    found = verdict(ok("eager", 1.0 / (x * 0)), ok("c", torch.tensor([float("inf"), float("inf")])), survey)
    assert (found.conclusion, found.kind) == (Conclusion.DIVERGES, Kind.NONFINITE)


def test_integers_are_exact():
    x = torch.tensor([1, 2, 3])
    survey = surveyed(lambda t: t + 1, x)
    found = verdict(ok("eager", x + 1), ok("c", torch.tensor([2, 3, 5])), survey)
    assert (found.conclusion, found.kind, found.blame) == (Conclusion.DIVERGES, Kind.INTEGER, Blame.CANDIDATE)


def test_complex_values_are_judged_in_both_parts():
    x = torch.randn(8, dtype=torch.complex64)
    survey = surveyed(lambda t: t * t, x)
    wrong = x * x
    wrong[2] = torch.complex(wrong[2].real, -wrong[2].imag)
    found = verdict(ok("eager", x * x), ok("c", wrong), survey)
    assert found.conclusion is Conclusion.DIVERGES and found.worst == "output[2]"


def test_dtype_and_shape_are_their_own_kinds():
    eager = ok("eager", X.exp())
    assert verdict(eager, ok("c", X.exp().double())).kind is Kind.DTYPE
    assert verdict(eager, ok("c", X.exp()[:3])).kind is Kind.SHAPE
    assert verdict(eager, ok("c", X.exp()[:3])).conclusion is Conclusion.DIVERGES


def test_missing_and_extra_outputs_are_shape():
    missing = verdict(ok("eager", X, X), ok("c", X))
    assert (missing.conclusion, missing.kind) == (Conclusion.DIVERGES, Kind.SHAPE)
    extra = verdict(ok("eager", X), ok("c", X, X))
    assert (extra.conclusion, extra.kind) == (Conclusion.DIVERGES, Kind.SHAPE)


def test_an_input_that_is_not_written_back_is_found():
    eager = ok("eager", X)
    changed = NamedTensor("input:x", X + 1)
    eager = type(eager)(
        **{**{f: getattr(eager, f) for f in eager.__dataclass_fields__}, "outputs": (*eager.outputs, changed)}
    )
    found = verdict(eager, ok("c", X))
    assert (found.conclusion, found.kind) == (Conclusion.DIVERGES, Kind.SHAPE)
    assert "input:x" in found.sentence


def test_no_outputs_at_all_are_not_judged():
    nothing = ok("eager")
    verdict = judge(nothing, [ok("c")], Survey())["c"].verdict
    assert verdict.conclusion is Conclusion.UNJUDGED and "nothing to compare" in verdict.sentence


def test_other_strides_are_noted_and_harmless():
    eager = ok("eager", torch.ones(2, 3))
    other = type(eager)("c", Status.OK, Stage.RUN, outputs=(NamedTensor("output", torch.ones(2, 3), (1, 2)),))
    mine = type(eager)("eager", Status.OK, Stage.RUN, outputs=(NamedTensor("output", torch.ones(2, 3), (3, 1)),))
    found = verdict(mine, other, None)
    assert found.conclusion is Conclusion.AGREES and "strides" in found.sentence


REJECTED = failed("eager", Status.REJECTED, message="RuntimeError: index 9 is out of bounds")


def test_accepting_what_eager_rejects_is_validation():
    found = verdict(REJECTED, ok("c", X), None)
    assert (found.conclusion, found.kind, found.blame) == (
        Conclusion.DIVERGES, Kind.VALIDATION, Blame.CANDIDATE,
    )  # fmt: skip


def test_rejecting_what_eager_accepts_is_validation():
    found = verdict(ok("eager", X), failed("c", Status.REJECTED, message="no"), None)
    assert (found.conclusion, found.kind) == (Conclusion.DIVERGES, Kind.VALIDATION)


@pytest.mark.parametrize("on_purpose", [True, False])
def test_both_refusing_agrees_only_where_a_case_may_be_invalid_on_purpose(on_purpose):
    def conclusion(candidate):
        return judge(REJECTED, [candidate], None, refusal_agrees=on_purpose)["c"].verdict.conclusion

    expected = Conclusion.AGREES if on_purpose else Conclusion.FAILED
    assert conclusion(failed("c", Status.REJECTED, message="bad index")) is expected
    compile_time = failed("c", Status.ERROR, Stage.COMPILE, "TorchRuntimeError: index 9 is out of bounds (x.py)")
    assert conclusion(compile_time) is expected
    assert conclusion(failed("c", Status.UNSUPPORTED, Stage.CONVERT, "no conversion rule")) is Conclusion.FAILED


def test_a_crash_of_eager_is_blamed_on_eager():
    found = verdict(failed("eager", Status.CRASH, message="SIGFPE"), ok("c", X), None)
    assert (found.conclusion, found.kind, found.blame) == (Conclusion.DIVERGES, Kind.VALIDATION, Blame.EAGER)
    both = verdict(failed("eager", Status.CRASH), failed("c", Status.CRASH), None)
    assert both.conclusion is Conclusion.FAILED


@pytest.mark.parametrize("status", [Status.UNSUPPORTED, Status.ERROR, Status.CRASH, Status.TIMEOUT, Status.OOM])
def test_a_platform_that_did_not_run_has_failed(status):
    found = verdict(ok("eager", X), failed("c", status, Stage.COMPILE, "why"))
    assert found.conclusion is Conclusion.FAILED and "why" in found.sentence and status.value in found.sentence


@pytest.mark.parametrize("status", [Status.TIMEOUT, Status.OOM])
def test_without_eager_nothing_is_judged(status):
    assert verdict(failed("eager", status), ok("c", X), None).conclusion is Conclusion.UNJUDGED


def test_a_result_where_eager_has_no_kernel_is_shown_and_is_no_defect():
    eager = failed("eager", Status.UNSUPPORTED, message="\"addmm\" not implemented for 'Bool'")
    found = verdict(eager, ok("c", X), None)
    assert (found.conclusion, found.kind, found.rule) == (Conclusion.HAZARD, Kind.VALIDATION, "missing-kernel")
    assert "addmm" in found.sentence


def test_a_platform_that_differs_from_itself_is_unstable():
    assert verdict(ok("eager", X.exp()), ok("c", X.exp() * 2, stable=False)).conclusion is Conclusion.UNSTABLE
    shaky = ok("eager", X.exp() * 2, stable=False)
    assert verdict(shaky, ok("c", X.exp())).conclusion is Conclusion.UNJUDGED


def test_random_streams_are_a_hazard_even_when_unstable():
    survey = surveyed(lambda t: torch.nn.functional.dropout(t, 0.5, True), torch.ones(64))
    eager, other = (torch.tensor([2.0, 0.0] * 32), torch.tensor([0.0, 2.0] * 32))
    found = verdict(ok("eager", eager), ok("c", other, stable=False), survey)
    assert (found.conclusion, found.rule) == (Conclusion.HAZARD, "random-stream")


PLACES = torch.tensor([[[[0.1, 0.2]]]])


def unwritten(mode: int) -> Survey:
    return surveyed_call("aten.grid_sampler_2d.default", torch.ones(1, 1, 2, 2), PLACES, mode, 0, False)


@pytest.mark.parametrize("same", [True, False])
def test_memory_that_nobody_wrote_is_a_hazard_even_when_unstable(same):
    eager = ok("eager", torch.ones(1, 1, 1, 1), stable=False)
    found = verdict(eager, ok("c", torch.full((1, 1, 1, 1), 1.0 if same else 7.0), stable=False), unwritten(3))
    assert (found.conclusion, found.rule) == (Conclusion.HAZARD, "unknown-mode")
    found = verdict(eager, ok("c", torch.ones(1, 1, 1, 1), stable=False), unwritten(2))
    assert found.conclusion is Conclusion.UNSTABLE


def test_nobody_need_accept_what_eager_should_refuse():
    eager, other = ok("eager", torch.ones(1, 1, 1, 1)), failed("c", Status.REJECTED, Stage.RUN, "no such mode")
    found = verdict(eager, other, unwritten(3))
    assert (found.conclusion, found.kind, found.rule) == (Conclusion.HAZARD, Kind.VALIDATION, "unknown-mode")
    assert "no such mode" in found.sentence
    assert verdict(eager, other, unwritten(2)).conclusion is Conclusion.DIVERGES


@pytest.mark.parametrize("wrong", [torch.ones(64), torch.zeros(64), torch.tensor([3.0, 0.0] * 32)])
def test_random_numbers_of_another_distribution_diverge(wrong):
    survey = surveyed(lambda t: torch.nn.functional.dropout(t, 0.5, True), torch.ones(64))
    found = verdict(ok("eager", torch.tensor([2.0, 0.0] * 32)), ok("c", wrong), survey)
    assert (found.conclusion, found.blame) == (Conclusion.DIVERGES, Blame.CANDIDATE)
    assert "not as it is on eager" in found.sentence


def test_without_a_survey_differences_are_unjudged():
    found = verdict(ok("eager", X), ok("c", X * 2), None)
    assert found.conclusion is Conclusion.UNJUDGED and "no survey" in found.sentence
    refused = Survey(problem="RuntimeError: no")
    assert verdict(ok("eager", X), ok("c", X * 2), refused).conclusion is Conclusion.UNJUDGED
    assert verdict(ok("eager", X), ok("c", X), None).conclusion is Conclusion.AGREES


def test_candidates_with_the_same_fault_are_one_group():
    wrong, other = X.exp(), X.exp()
    wrong[3], other[5] = 6.0, 1.0
    candidates = [ok("a", wrong), ok("b", wrong.clone()), ok("c", other), ok("d", X.exp())]
    found = {name: judged.verdict for name, judged in judge(ok("eager", X.exp()), candidates, EXP).items()}
    assert found["a"].group == found["b"].group is not None
    assert found["c"].group is None and found["d"].group is None
    assert "b shows the same, which counts as one witness" in found["a"].sentence


def test_families_are_witnesses():
    wrong = X.exp()
    wrong[3] = 6.0
    names = {
        "tract": ("onnx",),
        "onnxruntime": ("onnx",),
        "jax": ("xla",),
        "iree:vulkan": ("iree", "lavapipe"),
        "onnxruntime:webgpu": ("onnx", "lavapipe"),
    }

    def sentence(*platforms: str) -> str:
        candidates = [replace(ok(name, wrong.clone()), families=names[name]) for name in platforms]
        return judge(ok("eager", X.exp()), candidates, EXP)["tract"].verdict.sentence

    assert "onnxruntime shows the same, which counts as one witness" in sentence("tract", "onnxruntime")
    assert "jax shows the same: 2 independent witnesses" in sentence("tract", "jax")
    assert "jax, onnxruntime show the same: 2 independent witnesses" in sentence("tract", "onnxruntime", "jax")
    assert "2 independent witnesses" in sentence("tract", "iree:vulkan")
    assert "counts as one witness" in sentence(
        "tract", "iree:vulkan", "onnxruntime:webgpu"
    )  # the third shares with both


@pytest.mark.parametrize("own", [{"emulates": "a chip"}, {"composed": ("scatter",)}])
def test_what_mindgap_does_itself_is_no_witness(own: dict[str, Any]):
    wrong = X.exp() + 1
    observed, other = (replace(ok(name, wrong.clone()), families=(name,)) for name in ("openvino", "jax"))
    stand_in = replace(ok("stand-in", wrong.clone()), families=("torch",), **own)
    found = judge(ok("eager", X.exp()), [observed, stand_in], EXP)
    assert all("shows the same" not in item.verdict.sentence for item in found.values())
    assert all(item.verdict.group is None for item in found.values())
    found = judge(ok("eager", X.exp()), [observed, other, stand_in], EXP)
    assert "; jax shows the same: 2 independent witnesses" in found["openvino"].verdict.sentence


def test_nan_everywhere():
    nan = torch.full((8,), float("nan"))
    survey = surveyed(lambda t: t + 1, nan)
    assert verdict(ok("eager", nan), ok("c", nan), survey).conclusion is Conclusion.AGREES
    found = verdict(ok("eager", nan), ok("c", torch.zeros(8)), survey)
    assert (found.conclusion, found.kind) == (Conclusion.DIVERGES, Kind.NONFINITE)


def test_a_defect_next_to_a_hazard_is_still_found():
    x = torch.tensor([float("nan"), 1.5, 2.5, 3.5])
    survey = surveyed(lambda t: t.to(torch.int32), x)
    eager = x.to(torch.int32)
    saturated = torch.tensor([0, 1, 2, 3], dtype=torch.int32)
    assert verdict(ok("eager", eager), ok("c", saturated), survey).conclusion is Conclusion.HAZARD
    wrong = torch.tensor([0, 1, 2, 4], dtype=torch.int32)
    assert verdict(ok("eager", eager), ok("c", wrong), survey).conclusion is Conclusion.DIVERGES


@pytest.mark.parametrize("dtype", [torch.uint16, torch.uint32, torch.uint64, torch.float8_e5m2, torch.bool])
def test_rare_types_are_compared(dtype):
    first = torch.tensor([0, 1, 1, 0]).to(dtype)
    second = torch.tensor([0, 1, 0 if dtype is torch.bool else 64, 0]).to(dtype)
    survey = surveyed(lambda t: t.clone(), first)
    assert verdict(ok("eager", first), ok("c", first.clone()), survey).conclusion is Conclusion.AGREES
    found = verdict(ok("eager", first), ok("c", second), survey)
    assert found.conclusion is Conclusion.DIVERGES and found.worst == "output[2]"


def test_unsigned_values_are_shown_as_they_are():
    right = torch.tensor([1, 40000], dtype=torch.int32).to(torch.uint16)
    wrong = torch.tensor([1, 50000], dtype=torch.int32).to(torch.uint16)
    found = verdict(ok("eager", right), ok("c", wrong), surveyed(lambda t: t.clone(), right))
    assert "output[1] is 50000, eager has 40000" in found.sentence, found

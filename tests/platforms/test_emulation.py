"""Emulated hardware: what each policy does to numbers, and that nobody is accused for it."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

import mindgap
from mindgap.errors import UsageError
from mindgap.execution.serve import load_adapter
from mindgap.platforms.base import Platform
from mindgap.platforms.registry import adapter_class, catalogue, refuse_emulated, resolve
from mindgap.platforms.torch.emulation import POLICIES, emulated, with_mantissa
from mindgap.platforms.torch.presets import PRESETS
from mindgap.records.evaluation import Evaluation, PlatformEvaluation, TaskVerdict
from mindgap.records.outcome import Status
from mindgap.records.verdict import Conclusion
from mindgap.report.evaluation import closing_line as evaluation_closing_line
from mindgap.report.evaluation import rows
from mindgap.report.summary import check_document, check_row, closing_line
from mindgap.session.session import with_emulated
from tests.platforms.running import Network, run_on, task_of

FINITE = st.floats(width=32, allow_nan=False, allow_infinity=False, allow_subnormal=False)


@given(FINITE, st.sampled_from([10, 11]))
@settings(max_examples=200, deadline=None)
def test_rounding_to_a_short_mantissa(value: float, bits: int) -> None:
    x = torch.tensor(value)
    rounded = with_mantissa(bits, x)
    assert with_mantissa(bits, rounded).equal(rounded)
    assert int(rounded.view(torch.int32)) & ((1 << (23 - bits)) - 1) == 0 or not rounded.isfinite()
    if rounded.isfinite():
        assert abs(rounded.double() - value) <= abs(value) * 2.0 ** -(bits + 1)


def test_rounding_leaves_other_types_and_special_values_alone() -> None:
    special = torch.tensor([float("nan"), float("inf"), -float("inf"), 0.0, -0.0])
    assert torch.equal(with_mantissa(10, special).view(torch.int32), special.view(torch.int32))
    double = torch.tensor([1 / 3], dtype=torch.float64)
    assert with_mantissa(10, double) is double


def on(profile: str, function: Any, *args: torch.Tensor) -> torch.Tensor:
    done = run_on(f"eager@{profile}", task_of(function, list(args)))
    assert done.status is Status.OK, done.message
    return done["output"]


def test_tf32_reaches_products_convolutions_and_attention() -> None:
    x, w = torch.full((2, 4), 1 + 2.0**-12), torch.eye(4)
    assert on("emulated-tf32", torch.mm, x, w).tolist() == torch.ones(2, 4).tolist()
    assert on("emulated-tf32", lambda x, w: nn.functional.linear(x, w), x, w).tolist() == torch.ones(2, 4).tolist()
    assert on("emulated-tf32", lambda x: x + 1, x).tolist() == (x + 1).tolist()
    image, kernel = torch.full((1, 1, 3, 3), 1 + 2.0**-12), torch.ones(1, 1, 1, 1)
    assert on("emulated-tf32", torch.conv2d, image, kernel).unique().tolist() == [1.0]
    q = torch.full((1, 1, 3, 4), 1 + 2.0**-12)
    attention = on("emulated-tf32", nn.functional.scaled_dot_product_attention, q, q, q)
    third = with_mantissa(10, torch.tensor(1 / 3))  # the probabilities are an operand too
    assert attention.unique().tolist() == [(3 * third).item()]


def test_what_is_added_to_a_product_keeps_its_mantissa() -> None:
    bias = torch.full((2, 4), 1 + 2.0**-12)
    assert on("emulated-tf32", torch.addmm, bias, torch.zeros(2, 4), torch.zeros(4, 4)).equal(bias)


def test_an_a100_rounds_convolutions_but_not_products_by_default() -> None:
    x = torch.full((2, 2), 1 + 2.0**-12)
    assert on("like-a100", torch.mm, x, torch.eye(2)).equal(x)
    assert on("like-a100", torch.conv2d, x[None, None], torch.ones(1, 1, 1, 1)).unique().tolist() == [1.0]
    assert on("like-ascend", torch.conv2d, x[None, None], torch.ones(1, 1, 1, 1)).unique().tolist() == [1 + 2.0**-11]


def test_subnormal_numbers_count_as_zero_and_only_there() -> None:
    tiny = torch.tensor([1e-40, -1e-40, 1e-30])
    assert on("emulated-ftz", lambda x: x * 1.5, tiny).tolist() == [0.0, 0.0, torch.tensor(1e-30).mul(1.5).item()]
    assert (tiny * 1.5)[0] > 0  # the mode of the CPU was set back


def test_partial_sums_of_half_precision_are_rounded() -> None:
    x = torch.full((1, 4096), 1.0, dtype=torch.bfloat16)
    assert torch.mm(x, x.t()).item() == 4096
    assert on("emulated-bf16-accumulate", lambda x: torch.mm(x, x.t()), x).item() < 4096 * 2
    ones = torch.ones(1, 320, dtype=torch.bfloat16)
    third = torch.full((320, 1), 1 / 3, dtype=torch.bfloat16)
    steps = torch.zeros((), dtype=torch.bfloat16)
    for _ in range(10):
        steps = (steps.float() + 32 * third[0, 0].float()).bfloat16()
    assert on("emulated-bf16-accumulate", torch.mm, ones, third).item() == steps.item() != torch.mm(ones, third).item()
    added = on("emulated-bf16-accumulate", torch.addmm, torch.ones(1, 1).bfloat16(), ones, third)
    assert added.item() == (steps + 1).item()
    wide = torch.randn(3, 70)
    assert on("emulated-bf16-accumulate", lambda x: x @ x.t(), wide).allclose(wide @ wide.t())


@pytest.mark.parametrize("dtype", [torch.int32, torch.int64, torch.uint8, torch.int8])
def test_casts_saturate(dtype: torch.dtype) -> None:
    x = torch.tensor([1e30, -1e30, float("nan"), float("inf"), 3.9, -0.5])
    limits = torch.iinfo(dtype)
    expected = [limits.max, limits.min, 0, limits.max, 3, 0]
    assert on("emulated-saturating-casts", lambda x: x.to(dtype), x).tolist() == expected

    def written(x: torch.Tensor) -> torch.Tensor:
        return torch.zeros(6, dtype=dtype).copy_(x)

    assert on("emulated-saturating-casts", written, x).tolist() == expected
    assert on("emulated-saturating-casts", lambda x: x.to(torch.bool), x).tolist() == [True] * 6


def test_float64_is_refused_wherever_it_appears() -> None:
    case = task_of(lambda x: x.double().sum().float(), [torch.ones(3)])
    done = run_on("eager@emulated-no-float64", case)
    assert done.status is Status.UNSUPPORTED and "float64 is not supported" in done.message
    assert run_on("eager@like-mps", case).status is Status.UNSUPPORTED
    assert run_on("eager@like-mps", task_of(lambda x: x * 2, [torch.ones(3)])).status is Status.OK


@pytest.mark.parametrize("profile", PRESETS)
@pytest.mark.parametrize("source", [True, False])
def test_every_preset_runs_a_model_and_restores_everything(profile: str, source: bool) -> None:
    task = task_of(Network(), [torch.randn(1, 3, 6, 6)], source=source)
    before = run_on("eager", task)
    done = run_on(f"eager@{profile}", task)
    assert done.status is Status.OK and list(done.outputs) == list(before.outputs)
    assert done["features"].allclose(before["features"], rtol=1e-2, atol=1e-2)
    assert run_on("eager", task)["features"].equal(before["features"])


def test_presets_are_made_of_known_policies_and_name_their_sources() -> None:
    for name, preset in PRESETS.items():
        assert set(preset.policies) <= {*POLICIES, "ftz", "no-float64"}, name
        assert preset.sources and preset.stands_for
        spec = resolve(f"eager@{name}")
        assert spec.emulates and spec.summary.startswith("emulated, not observed")
        assert load_adapter(spec).probe().available
    assert sum(bool(spec.emulates) for spec in catalogue()) == len(PRESETS)


@pytest.mark.parametrize("profile", ["emulated-no-float64", "like-mps"])
def test_a_platform_without_float64_does_not_list_it(profile: str) -> None:
    dtypes = load_adapter(resolve(f"eager@{profile}")).probe().dtypes
    assert {"float32", "complex64", "int64", "bool"} <= set(dtypes)
    assert not {"float64", "complex128"} & set(dtypes)


def test_a_cpu_without_the_mode_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch, "set_flush_denormal", lambda mode: False)
    with pytest.raises(NotImplementedError, match="cannot flush"), emulated(["ftz"]):
        pass


def test_the_script_needs_no_mindgap() -> None:
    spec = resolve("eager@emulated-tf32")
    text = (adapter_class(spec) or Platform).reproducer(spec).text
    space: dict[str, Any] = {"torch": torch, "as_list": lambda found: [found]}
    exec(text, space)
    (result,) = space["on_platform"](lambda x: x @ torch.eye(2), [torch.full((2, 2), 1 + 2.0**-12)])
    assert result.unique().tolist() == [1.0] and "mindgap" not in text


def test_what_is_emulated_is_shown_and_nobody_is_accused() -> None:
    x = torch.randn(8, 64)
    names = ["eager@emulated-tf32", "eager@emulated-no-float64", "eager@scalar"]

    def product(x: torch.Tensor) -> torch.Tensor:
        return x @ x.t() + x.double().sum().float()

    result = mindgap.check(product, [x], on=names)
    for name in names[:2]:
        item = result.platforms[name]
        assert item.verdict.conclusion is Conclusion.HAZARD and item.verdict.blame is None
        assert item.verdict.rule == "emulated" and item.verdict.sentence.startswith("emulated: ")
        assert check_row(name, item)[0] == f"{name} (emulated)"
        assert check_document([result])["platforms"][name]["emulates"]
    assert not result.differs
    assert closing_line(result).endswith("Emulated, not observed: 2 stand-ins, of which 2 would change it.")


def test_campaigns_and_explanations_hold_only_what_was_observed() -> None:
    refuse_emulated(resolve("eager@scalar"), "a campaign")
    with pytest.raises(UsageError, match="a campaign holds only what was observed"):
        refuse_emulated(resolve("eager@like-mps"), "a campaign")
    with mindgap.Session() as session, pytest.raises(UsageError, match="an audit holds only what was observed"):
        session.audit(torch.nn.ReLU(), "nowhere", [torch.ones(2)], on=["eager@like-mps"])


def test_an_evaluation_tells_emulated_answers_from_observed_ones() -> None:
    names = ("eager@scalar", "eager@like-mps")
    agrees = PlatformEvaluation(TaskVerdict.AGREES, "no answer of 4 changed")
    worse = PlatformEvaluation(TaskVerdict.REGRESSION, "3 of 4 changed")
    before = Evaluation("m", "classification", "d", 4, 1, "float32", 0, 8, 1e-3, {}, dict(zip(names, (agrees, worse))))
    found = with_emulated(before, [resolve(name) for name in names])
    assert before.regresses and not found.regresses
    assert found.platforms["eager@scalar"] == agrees
    assert found.platforms["eager@like-mps"].sentence.startswith("emulated: ")
    assert [row[0] for row in rows(found)] == ["eager", "eager@scalar", "eager@like-mps (emulated)"]
    line = "agrees: eager@scalar. Emulated, not observed: regression: eager@like-mps"
    assert evaluation_closing_line(found) == line

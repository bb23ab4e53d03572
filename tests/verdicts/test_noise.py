"""The noise floor: what it moves, what it leaves alone, how it grows with length."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from mindgap.program.operators import Rounding, traits
from mindgap.records.verdict import Conclusion
from mindgap.verdicts.elements import THRESHOLD, Expected, deviation
from mindgap.verdicts.factors import EPS, LARGEST_POOL, NoisePool, pool_for
from mindgap.verdicts.floor import BLOCK, Floor
from mindgap.verdicts.judge import judge
from mindgap.verdicts.noise import Noise, growth
from mindgap.verdicts.terms import length
from tests.verdicts.programs import call, ok, surveyed


def spread_of(function, *inputs, runs=8):
    return surveyed(function, *inputs, runs=runs).outputs[0].spread


@pytest.mark.parametrize("dtype", EPS)
def test_noise_is_one_to_two_units_of_the_own_type(dtype):
    x = torch.linspace(1.0, 1.99, 100, dtype=torch.float64).to(dtype)
    moved = (NoisePool(0).perturbed(x) - x).abs() / EPS[dtype]
    assert moved.min() >= 0.5 and moved.max() <= 2


def test_zeros_infinities_and_nan_stay():
    x = torch.tensor([0.0, -0.0, float("inf"), -float("inf"), float("nan")])
    noisy = NoisePool(0).perturbed(x)
    assert torch.equal(noisy[:4].view(torch.int32), x[:4].view(torch.int32)) and noisy[4].isnan()


@pytest.mark.parametrize(
    "tensor",
    [
        torch.ones(3, 4, 5, 6).contiguous(memory_format=torch.channels_last),
        torch.ones(6, 4).t(),
        torch.ones(8, 8)[::2, ::3],
        torch.ones(()),
        torch.ones(0, 3),
        torch.ones(2, 3, dtype=torch.complex64),
        torch.ones(LARGEST_POOL + 5),
        torch.ones(2, LARGEST_POOL // 2 + 3)[:, ::2],
    ],
)
def test_any_layout_and_size_gets_noise(tensor):
    noisy = tensor.clone()
    NoisePool(0).perturb_(noisy)
    assert noisy.stride() == tensor.clone().stride()
    real = torch.view_as_real if tensor.is_complex() else torch.clone
    moved = real(noisy) != real(tensor)
    assert torch.equal(moved, real(tensor) != 0)  # every number but zero


@pytest.mark.parametrize(
    "exact",
    [
        lambda t: torch.remainder(t, 0.1),
        lambda t: torch.floor_divide(t, 0.1),
        lambda t: t.relu(),
        lambda t: t.reshape(2, 4).T.contiguous(),
        lambda t: t.sort().values,
        lambda t: torch.where(t > 1, t, -t),
        lambda t: t.clamp(0.5, 1.5),
        lambda t: t.double(),
        lambda t: t.abs().max(),
        lambda t: t.index_put((torch.tensor([1]),), t[:1]),
    ],
)
def test_exact_operators_get_no_noise(exact):
    spread = spread_of(exact, torch.linspace(0.1, 2.0, 8))
    assert spread is None or not spread.any()


@pytest.mark.parametrize(
    "function",
    [
        lambda t: t + 1.0,
        lambda t: t.clone().mul_(1.1),
        lambda t: t.index_put((torch.tensor([1]),), t[:1], accumulate=True),
        lambda t: t.half(),
        lambda t: torch.exp(t),
        lambda t: torch.layer_norm(t, (8,)),
        lambda t: t @ t,
        lambda t: torch.nn.functional.gelu(t - 6),
    ],
)
def test_rounding_operators_get_noise_in_place_ones_too(function):
    assert bool((spread_of(function, torch.linspace(0.1, 2.0, 8)) > 0).any())


def test_an_in_place_chain_is_as_noisy_as_its_functional_twin():
    x = torch.linspace(0.1, 2.0, 64)

    def inplace(t):
        y = t.clone()
        for _ in range(8):
            y.mul_(1.1).add_(0.3)
        return y

    def functional(t):
        for _ in range(8):
            t = t * 1.1 + 0.3
        return t

    first, second = spread_of(inplace, x).norm(), spread_of(functional, x).norm()
    assert 0.5 < first / second < 2


def test_cancellation_before_a_result_shows_in_its_floor():
    x = torch.linspace(0.1, 2.0, 64)
    calm, wild = spread_of(lambda t: t * 2, x), spread_of(lambda t: (t * 2 + 1000) - 1000, x)
    assert wild.norm() > 100 * calm.norm()


X, Y = torch.linspace(0.1, 2.0, 64), torch.linspace(1.9, 0.3, 64)


@pytest.mark.parametrize(
    ("function", "in_steps", "inputs"),
    [
        (torch.addcmul, lambda s, x, y: s + x * y, (-(X * Y), X, Y)),
        (torch.addcdiv, lambda s, x, y: s + x / y, (-(X / Y), X, Y)),
        (lambda s, x: torch.add(s, x, alpha=-0.3), lambda s, x: s - 0.3 * x, (X * 0.3001, X)),
        (lambda s, x: torch.sub(s, x, alpha=0.3), lambda s, x: s - 0.3 * x, (X * 0.3001, X)),
        (lambda x, y: torch.lerp(x, y, 0.3), lambda x, y: x + 0.3 * (y - x), (X, -X * (0.7001 / 0.3))),
        (
            lambda x, y: torch.view_as_real(torch.complex(x, y) * torch.complex(1.0001 * y, x)),
            lambda x, y: torch.stack([x * (1.0001 * y) - y * x, x * x + y * (1.0001 * y)], -1),
            (X, Y),
        ),
        (torch.logaddexp, torch.logaddexp, (torch.full((64,), -0.6931472), torch.full((64,), -0.6931472))),
        (torch.sinc, torch.sinc, (torch.arange(1.0, 65.0),)),
    ],
)
def test_a_product_that_its_sum_cancels_is_anybodys_rounding(function, in_steps, inputs):
    """One platform rounds the product, another adds it as it is: the difference is all that a cancellation leaves."""
    floor = spread_of(function, *inputs).double()
    exact = function(*(tensor.double() for tensor in inputs))
    off = (in_steps(*inputs).double() - exact).abs()
    assert (off > 100 * torch.finfo(torch.float32).eps * exact.abs()).any()
    assert (off <= THRESHOLD * floor).all()


@pytest.mark.parametrize("approximate", ["none", "tanh"])
@pytest.mark.parametrize("count", [64, 8192])
def test_the_tail_of_gelu_has_a_floor_where_its_formula_gives_zero(approximate, count):
    x = torch.linspace(-12, -6, count)
    spread = spread_of(lambda t: torch.nn.functional.gelu(t, approximate=approximate), x)
    assert bool((spread > 5e-7).all())


def test_the_sign_of_zero_survives_the_noise_of_an_activation():
    spread = surveyed(lambda t: 1.0 / torch.nn.functional.elu(t), torch.tensor([-0.0, 0.0])).outputs[0]
    assert spread.flips is None


def test_long_sums_get_more_noise():
    short, long = (call("aten.sum.default", torch.ones(n)) for n in (16, 1 << 16))
    assert growth(short) == 1 and growth(long) == 32
    assert length(call("aten.mm.default", torch.ones(2, 4096), torch.ones(4096, 2))) == 4096
    assert length(call("aten.conv2d.default", torch.ones(1, 8, 4, 4), torch.ones(2, 8, 3, 3))) == 72
    assert length(call("aten.sum.dim_IntList", torch.ones(3, 5), [1])) == 5
    assert length(call("aten.avg_pool2d.default", torch.ones(1, 1, 9, 9), [3])) == 9
    assert length(call("aten.adaptive_avg_pool2d.default", torch.ones(1, 1, 9, 8), [1, 4])) == 18
    assert growth(call("aten.sum.default", torch.ones(1 << 16, dtype=torch.float16))) == 1


def test_a_very_long_sum_gets_its_noise_without_a_copy_of_its_terms():
    terms = torch.full((LARGEST_POOL + 1,), 0.1)
    plain = call("aten.mean.default", terms)
    noisy = Noise(NoisePool(0))(plain)
    assert noisy != plain.make() and abs(noisy - 0.1) < 1e-3


def test_unknown_operators_are_taken_to_round_inside():
    assert traits("torchvision.roi_align.default").rounding is Rounding.INSIDE
    assert traits("operator.getitem").rounding is Rounding.EXACT
    assert traits("aten.div.Tensor_mode").rounding is Rounding.EXACT
    assert traits("aten.div.Tensor").rounding is Rounding.ONCE


def test_lucky_elements_are_raised_to_what_is_usual_around_them():
    plain = torch.ones(4 * BLOCK)
    floor = Floor(plain)
    noisy = plain + 1e-6
    noisy[5] = 1.0
    floor.add(noisy)
    assert 4e-7 < float(floor.smooth()[5]) < 6e-7


def test_a_flip_into_infinity_is_noted_and_a_change_of_shape_too():
    floor = Floor(torch.tensor([1.0, float("inf"), float("nan")]))
    floor.add(torch.tensor([float("inf"), float("inf"), float("nan")]))
    assert floor.flips.tolist() == [True, False, False] and floor.moved
    floor.add(torch.ones(2))
    assert floor.reshaped


def test_noise_does_not_depend_on_what_the_pool_was_used_for_before() -> None:
    """Workers keep a pool for many programs; a campaign must end the same whoever judged what."""
    small, fresh, used = torch.ones(100), NoisePool(7), NoisePool(7)
    used.perturbed(torch.ones(LARGEST_POOL // 4), 3)
    used.perturbed(torch.ones(3, 5, dtype=torch.float64))
    for pool in (fresh, used):
        pool.restart(1)
    for amplitude in (1, 2):
        assert torch.equal(fresh.perturbed(small, amplitude), used.perturbed(small, amplitude))
    assert pool_for(7) is pool_for(7)
    pool_for(7).perturbed(torch.ones(LARGEST_POOL // 4))
    assert pool_for(7).size < LARGEST_POOL, "a large pool is not kept"


@settings(max_examples=20, deadline=None)
@given(st.floats(1e-3, 1e3), st.sampled_from([17, 1000, 30_000]))
def test_a_running_sum_in_one_accumulator_is_rounding(term, count):
    terms = torch.full((count,), term)
    survey = surveyed(lambda t: t.cumsum(0), terms)
    alone = torch.from_numpy(np.cumsum(terms.numpy(), dtype=np.float32))
    found = judge(ok("eager", terms.cumsum(0)), [ok("c", alone)], survey)["c"].verdict
    assert found.conclusion in (Conclusion.AGREES, Conclusion.ROUNDING)
    wrong = judge(ok("eager", terms.cumsum(0)), [ok("c", alone * (1 + count * 2**-22 + 2**-16))], survey)["c"].verdict
    assert wrong.conclusion is Conclusion.DIVERGES


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_only_what_float32_flushes_may_be_flushed(dtype):
    tiny = torch.full((1,), torch.finfo(dtype).smallest_normal / 8, dtype=dtype)
    expected = Expected(dtype, tiny.double(), None)
    flushed = float(deviation(torch.zeros_like(tiny), expected)) <= THRESHOLD
    assert flushed == (dtype is not torch.float16)


@settings(max_examples=20, deadline=None)
@given(st.integers(2, 40), st.floats(-5, 20), st.booleans())
def test_a_polynomial_by_its_recurrence_is_rounding(degree, start, fused):
    x = start + torch.linspace(0, 1, 64)
    step = torch.float64 if fused else torch.float32  # the sum of a step rounded once, as a fused instruction does it
    before, now = torch.ones(64), 1 - x
    for k in range(1, degree):
        before, now = now, (((2 * k + 1 - x).to(step) * now - (k * before).to(step)).float() / (k + 1))
    wrong = torch.special.laguerre_polynomial_l(x, degree - 1)
    eager = torch.special.laguerre_polynomial_l(x, degree)
    survey = surveyed(lambda t: torch.special.laguerre_polynomial_l(t, torch.tensor(float(degree))), x)
    found = judge(ok("eager", eager), [ok("c", now), ok("wrong", wrong)], survey)
    assert found["c"].verdict.conclusion in (Conclusion.AGREES, Conclusion.ROUNDING)
    assert found["wrong"].verdict.conclusion is Conclusion.DIVERGES


@pytest.mark.parametrize("transform", ["fft_fft", "fft_rfft", "fft_ihfft", "fft_fft2", "fft_fftn", "fft_irfft"])
@pytest.mark.parametrize("shape", [(2, 3, 4), (6, 5), (2, 8), (4, 60)])
def test_a_transform_by_its_definition_is_rounding(transform, shape):
    """A library that multiplies by cosines and sines has rounding errors where symmetry gives eager exact zeros."""
    x = torch.randn(shape, generator=torch.Generator().manual_seed(3))

    def function(signal: torch.Tensor) -> torch.Tensor:
        return getattr(torch.ops.aten, transform).default(signal).resolve_conj()

    def by_definition(signal: torch.Tensor) -> torch.Tensor:
        columns = [
            function(torch.eye(signal.numel(), dtype=signal.dtype)[k].view(signal.shape)) for k in range(signal.numel())
        ]
        weights = signal.reshape(-1)
        return sum((column * weight for column, weight in zip(columns, weights)), torch.zeros_like(columns[0]))

    for scale in (1.0, 1e22):  # the square of the larger one is infinite
        given = scale * x
        wrong = function(given).clone()
        wrong.view(-1)[1] += scale * 1e-3
        survey = surveyed(function, given)
        found = judge(ok("eager", function(given)), [ok("c", by_definition(given)), ok("wrong", wrong)], survey)
        assert found["c"].verdict.conclusion is not Conclusion.DIVERGES  # signs of zeros are a hazard
        assert found["wrong"].verdict.conclusion is Conclusion.DIVERGES


@pytest.mark.parametrize(("name", "shape", "arguments"), [
    ("group_norm", (1, 1, 1, 1), (1, torch.tensor([0.7]), torch.ones(1))),
    ("group_norm", (3, 2, 1), (2, None, torch.ones(2))),
    ("layer_norm", (5, 1), ([1], torch.tensor([-3.0]), torch.ones(1))),
    ("native_layer_norm", (5, 1), ([1], None, torch.ones(1), 1e-5)),
    ("instance_norm", (2, 3, 1), (None, torch.ones(3), None, None, True, 0.1, 1e-5, False)),
])  # fmt: skip
def test_an_element_that_is_normalised_by_itself_is_the_bias_but_for_rounding(name, shape, arguments):
    """x * scale - x * scale is 0, or what one of the two products was rounded by, where they are fused."""
    x = torch.rand(shape, generator=torch.Generator().manual_seed(1)) + 0.4
    function = getattr(torch.ops.aten, name).default

    def first(tensor: torch.Tensor) -> torch.Tensor:
        found = function(tensor, *arguments)
        return found[0] if isinstance(found, tuple) else found

    eager, fused = first(x), 1 + x * (1e-5**-0.5 * 2**-24)
    survey = surveyed(first, x)
    others = [ok("bias", torch.ones_like(eager)), ok("fused", fused), ok("wrong", eager + 0.1)]
    found = judge(ok("eager", eager), others, survey)
    for candidate in ("bias", "fused"):
        assert found[candidate].verdict.conclusion is not Conclusion.DIVERGES, found[candidate].verdict.sentence
    assert found["wrong"].verdict.conclusion is Conclusion.DIVERGES


@pytest.mark.parametrize("window", [torch.hann_window, torch.blackman_window])
def test_a_window_has_noise_where_its_terms_cancel(window):
    spread = spread_of(lambda t: t + window(10, periodic=False), torch.zeros(10))
    eps = torch.finfo(torch.float32).eps
    assert 0.1 * eps < float(spread[0]) < 4 * eps

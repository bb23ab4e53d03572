"""What holds for any tensors."""

from __future__ import annotations

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from mindgap.records.verdict import Conclusion
from mindgap.verdicts.elements import THRESHOLD, bound, expected_chunks
from mindgap.verdicts.judge import judge
from mindgap.verdicts.survey import Survey
from tests.verdicts.programs import ok, program, surveyed

DTYPES = [
    torch.float64, torch.float32, torch.float16, torch.bfloat16, torch.complex64, torch.int64, torch.int8,
    torch.uint8, torch.bool,
]  # fmt: skip
SPECIAL = [0.0, -0.0, 1.0, -2.5, 1e30, 1e-45, float("nan"), float("inf"), -float("inf")]


@st.composite
def tensors(draw):
    dtype = draw(st.sampled_from(DTYPES))
    shape = draw(st.sampled_from([(), (0,), (1,), (5,), (2, 3), (3, 0, 2)]))
    count = 1
    for size in shape:
        count *= size
    values = draw(st.lists(st.sampled_from(SPECIAL), min_size=count, max_size=count))
    if not (dtype.is_floating_point or dtype.is_complex):
        values = [int(v) % 3 if abs(v) < 10 else 1 for v in values]
    return torch.tensor(values, dtype=dtype).reshape(shape)


def flat(judged):
    found = {name: item.verdict for name, item in judged.items()}
    return {name: (v.conclusion, v.kind, v.blame, v.error_over_bound, v.group, v.rule) for name, v in found.items()}


@settings(max_examples=60, deadline=None)
@given(tensors())
def test_a_tensor_agrees_with_itself(x):
    survey = surveyed(lambda t: t.clone(), x, runs=2)
    for known in (survey, None, Survey()):
        found = judge(ok("eager", x), [ok("c", x.clone())], known)["c"].verdict
        assert found.conclusion is Conclusion.AGREES


@settings(max_examples=25, deadline=None)
@given(st.lists(tensors(), min_size=2, max_size=4), st.randoms())
def test_the_order_of_candidates_does_not_matter(found, chance):
    eager, *others = found
    survey = surveyed(lambda t: t.clone(), eager, runs=2)
    candidates = [ok(f"c{i}", t) for i, t in enumerate([*others, others[0]])]
    first = judge(ok("eager", eager), candidates, survey)
    chance.shuffle(candidates)
    assert flat(judge(ok("eager", eager), candidates, survey)) == flat(first)


def chain(t):
    return torch.softmax(t @ t.T, -1).cumsum(0) * t.mean()


@settings(max_examples=10, deadline=None)
@given(st.integers(0, 2**20))
def test_the_floor_is_the_same_for_the_same_seed(seed):
    x = torch.linspace(-1, 1, 64).reshape(8, 8)
    first, second = (surveyed(chain, x, runs=3, seed=seed).outputs[0] for _ in range(2))
    assert torch.equal(first.spread, second.spread) and torch.equal(first.reference, second.reference)
    other = surveyed(chain, x, runs=3, seed=seed + 1).outputs[0]
    assert not torch.equal(first.spread, other.spread)


@settings(max_examples=10, deadline=None)
@given(st.integers(-20, 20))
def test_scaling_by_a_power_of_two_keeps_the_error(power):
    x = torch.linspace(0.3, 1.7, 24).reshape(4, 6)
    ratios = []
    for scale in (1.0, 2.0**power):
        scaled = x * scale
        survey = surveyed(lambda t: (t * 3 - t.sum(-1, keepdim=True)).abs(), scaled)
        eager = (scaled * 3 - scaled.sum(-1, keepdim=True)).abs()
        ratios.append(judge(ok("eager", eager), [ok("c", eager * (1 + 2**-20))], survey)["c"].verdict.error_over_bound)
    assert ratios[0] == ratios[1]


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 10_000), st.sampled_from([1.0, 16.0, 64.0]), st.sampled_from([4, 8]))
def test_planted_errors_are_found_from_16_floors_on(seed, floors, runs):
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(16, 16, generator=generator)
    survey = surveyed(lambda t: torch.tanh(t @ t.T / 4).sum(-1), x, runs=runs, seed=seed)
    eager = torch.tanh(x @ x.T / 4).sum(-1)
    known = survey.outputs[0]
    expected = next(expected_chunks(known, eager.dtype))
    place = seed % len(eager)
    wrong = known.reference.clone()
    wrong[place] += floors * bound(expected, expected.reference)[place]
    found = judge(ok("eager", eager), [ok("c", wrong.float())], survey)["c"].verdict
    assert (found.conclusion is Conclusion.DIVERGES) == (floors > THRESHOLD)


def test_the_callable_path_gives_the_same_reference_and_a_like_floor():
    from mindgap.verdicts.surveyor import survey

    x = torch.linspace(-1, 1, 64).reshape(8, 8)
    subject, inputs = program(chain, x)
    first = survey(subject, inputs, 0, 8).outputs[0]
    second = survey(chain, inputs, 0, 8).outputs[0]
    assert torch.equal(first.reference, second.reference)
    assert torch.allclose(first.spread.log2(), second.spread.log2(), rtol=0, atol=2)  # a factor of 4: other draws

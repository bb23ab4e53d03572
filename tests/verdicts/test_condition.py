"""Ill-conditioning of the problem, where nobody is judged, and of an algorithm, where eager shows what can be done."""

from __future__ import annotations

import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from mindgap.records.verdict import Blame, Conclusion
from mindgap.verdicts.judge import judge
from tests.verdicts.programs import ok, surveyed

F = torch.nn.functional


def verdict(function, x, candidate):
    return judge(ok("eager", function(x)), [ok("c", candidate)], surveyed(function, x))["c"].verdict


def points(offset, generator, rows=8):
    return torch.randn(rows, 4, generator=generator) + offset


# Operators that round inside. An exact one, such as a difference of inputs, has to take its arguments as they are.
FUNCTIONS = {
    "cdist": lambda t: torch.cdist(t, t.flip(0)),
    "var": lambda t: t.var(-1),
    "std": lambda t: t.std(0),
    "layer_norm": lambda t: torch.layer_norm(t, (4,)),
    "batch_norm": lambda t: F.batch_norm(t, None, None, training=True),
    "softplus": lambda t: F.softplus(-t),
    "logsigmoid": lambda t: F.logsigmoid(t),
    "elu": lambda t: F.elu(t / 1e6),
    "logsumexp": lambda t: t.logsumexp(-1),
    "norm": lambda t: torch.linalg.vector_norm(t, dim=-1),
    "cosine": lambda t: 1 - F.cosine_similarity(t, t.flip(0)),
    "inverse": lambda t: torch.linalg.inv(t[:4]),
    "sum": lambda t: t.sum(0),
}


@pytest.mark.parametrize("name", FUNCTIONS)
@settings(max_examples=6, deadline=None)
@given(st.integers(0, 7), st.integers(0, 1000))
def test_the_exact_result_of_inputs_that_are_a_rounding_away_is_no_defect(name, power, seed):
    """Whoever solves a problem next to the one that was asked is as good as an implementation can promise to be."""
    generator = torch.Generator().manual_seed(seed)
    x = points(10.0**power, generator)
    signs = torch.randint(0, 2, x.shape, generator=generator) * 2 - 1
    function = FUNCTIONS[name]
    try:
        nearby = function((x * (1 + signs * 2.0**-24)).double()).float()
        function(x)
    except torch.linalg.LinAlgError:  # a singular matrix was drawn: there is no result to judge
        assume(False)
    assert verdict(function, x, nearby).conclusion is not Conclusion.DIVERGES


def cdist_by_products(a, b):
    squares = a.square().sum(-1, keepdim=True) + b.square().sum(-1) - 2 * a @ b.T
    return squares.clamp_min(0).sqrt()


@settings(max_examples=15, deadline=None)
@given(st.integers(3, 5), st.integers(0, 1000))
def test_a_distance_by_products_is_wrong_where_eager_subtracts(power, seed):
    x = points(10.0**power, torch.Generator().manual_seed(seed))
    found = verdict(FUNCTIONS["cdist"], x, cdist_by_products(x, x.flip(0)))
    assert (found.conclusion, found.blame) == (Conclusion.DIVERGES, Blame.CANDIDATE)
    assert found.eager_error_over_bound < 12 < found.error_over_bound


@settings(max_examples=15, deadline=None)
@given(st.floats(17, 60), st.integers(0, 1000))
def test_a_tail_that_eager_keeps_must_not_be_lost(low, seed):
    x = low + torch.rand(32, generator=torch.Generator().manual_seed(seed))
    found = verdict(lambda t: F.softplus(-t), x, torch.log(1 + torch.exp(-x)))
    assert (found.conclusion, found.blame) == (Conclusion.DIVERGES, Blame.CANDIDATE)


@pytest.mark.parametrize("wrong", [2.0, 1e6])
def test_nobody_is_judged_where_the_problem_itself_is_ill_conditioned(wrong):
    index = torch.arange(10.0)
    hilbert = 1.0 / (index.unsqueeze(0) + index.unsqueeze(1) + 1)
    cancelled = torch.rand(32, generator=torch.Generator().manual_seed(0)) * 1e-3
    for function, x in ((torch.linalg.inv, hilbert), (lambda t: (t + 1e4) - 1e4, cancelled)):
        found = verdict(function, x, function(x) * wrong)
        assert found.conclusion is Conclusion.UNJUDGED and "ill-conditioned" in found.sentence


def test_nan_is_no_rounding_while_something_of_the_output_is_known():
    def cancelled(t):
        return (t + 1e4) - 1e4

    for scale, expected in ((4e-3, Conclusion.DIVERGES), (6e-4, Conclusion.UNJUDGED)):
        x = torch.full((32,), scale) * torch.linspace(1, 2, 32)
        wrong = cancelled(x)
        wrong[3] = float("nan")
        condition = surveyed(cancelled, x).outputs[0].condition
        assert condition > 1 / 12 and (condition < 1) == (expected is Conclusion.DIVERGES)
        assert verdict(cancelled, x, wrong).conclusion is expected


def test_nobody_is_judged_by_what_eager_does_not_achieve():
    x = points(1e4, torch.Generator().manual_seed(0), rows=40)
    function = FUNCTIONS["cdist"]
    found = verdict(function, x, function(x) * 3)
    assert found.conclusion is Conclusion.UNJUDGED


def test_a_probability_loses_digits_in_its_tail_on_eager_too():
    for x in (torch.linspace(-4.5, -2.0, 64), torch.tensor([-4, -3, -2])):
        other = torch.special.ndtr(x) + 1e-7 * torch.sin(9.0 * x)
        found = verdict(torch.special.ndtr, x, other)
        assert found.conclusion in (Conclusion.AGREES, Conclusion.ROUNDING)
        assert verdict(torch.special.ndtr, x, other + 1e-5).conclusion is Conclusion.DIVERGES

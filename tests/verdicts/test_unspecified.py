"""Every rule: a call that it matches, one that it does not, and what it changes."""

from __future__ import annotations

from itertools import permutations

import pytest
import torch

from mindgap.program.inputs import Inputs
from mindgap.verdicts.survey import THOROUGH
from mindgap.verdicts.surveyor import survey
from mindgap.verdicts.unspecified import CALL_RULES, RULES, matching
from tests.verdicts.programs import call, surveyed

NAN = float("nan")
BIG = 3e38
"""Two of them overflow."""
INT_MIN = torch.iinfo(torch.int32).min

ROWS = torch.zeros(3, 8)

MATCHING = {
    "float-to-integer": call("aten.to.dtype", torch.tensor([NAN, 1.0]), torch.int32),
    "shift-out-of-range": call("aten.bitwise_left_shift.Tensor", torch.tensor([1, 1]), torch.tensor([-1, 2])),
    "integer-division": call(
        "aten.div.Tensor_mode", torch.tensor([INT_MIN, 7]).int(), torch.tensor([-1, 2]).int(), rounding_mode="trunc"
    ),
    "nan-bits": call("aten.signbit.default", torch.tensor([NAN, 1.0])),
    "vector-sign": call("aten.linalg_eigh.default", torch.tensor([[2.0, 1.0], [1.0, 3.0]])),
    "eigenvalue-order": call("aten.linalg_eigvals.default", torch.tensor([[2.0, 1.0], [0.0, 3.0]])),
    "empty-reduction": call("aten.median.default", torch.empty(0)),
    "tie-order": call("aten.sort.default", torch.tensor([2.0, 1.0, 2.0])),
    "unsorted": call("aten.topk.default", torch.tensor([2.0, 1.0, 3.0]), 2, -1, True, False),
    "duplicate-writes": call(
        "aten.index_put.default", torch.zeros(3), [torch.tensor([1, 1])], torch.tensor([5.0, 6.0])
    ),
    "random-stream": call("aten.dropout.default", torch.ones(64), 0.5, True),
    "uninitialised-memory": call("aten.empty.memory_format", [4]),
    "resized-memory": call("aten.resize_.default", torch.zeros(2), [4]),
    "overlapping-memory": call("aten.copy_.default", ROWS[:, 1:], ROWS[:, :-1]),
    "accumulation-order": call("aten.sum.default", torch.tensor([3e38, 3e38, -3e38])),
    "cancelled-sum": call("aten.sum.default", torch.tensor([1.0, 2.0**-25, -1.0])),
    "unknown-mode": call("aten.grid_sampler_2d.default", torch.ones(1, 1, 2, 2), torch.zeros(1, 1, 1, 2), 3, 0, False),
    "unordered-offsets": call("aten.embedding_bag.default", ROWS, torch.tensor([0, 1, 2]), torch.tensor([0, 2, 1])),
    "unwritten-polynomial": call("aten.special_laguerre_polynomial_l.n_scalar", torch.tensor([0.3, float("nan")]), 7.0),
}

HARMLESS = {
    "float-to-integer": call("aten.to.dtype", torch.tensor([-3.7, 1.0]), torch.int32),
    "shift-out-of-range": call("aten.bitwise_left_shift.Tensor", torch.tensor([1, 1]), torch.tensor([0, 63])),
    "integer-division": call("aten.div.Tensor_mode", torch.tensor([9]), torch.tensor([-1]), rounding_mode="trunc"),
    "nan-bits": call("aten.signbit.default", torch.tensor([-0.0, 1.0])),
    "vector-sign": call("aten.mm.default", torch.eye(2), torch.eye(2)),
    "eigenvalue-order": call("aten.linalg_eigvalsh.default", torch.eye(2)),
    "empty-reduction": call("aten.median.default", torch.ones(1)),
    "tie-order": call("aten.sort.default", torch.tensor([2.0, 1.0, 3.0])),
    "unsorted": call("aten.topk.default", torch.tensor([2.0, 1.0, 3.0]), 2),
    "duplicate-writes": call(
        "aten.index_put.default", torch.zeros(3), [torch.tensor([1, 1])], torch.tensor([5.0, 6.0]), True
    ),
    "random-stream": call("aten.dropout.default", torch.ones(64), 0.5, False),
    "uninitialised-memory": call("aten.zeros.default", [4]),
    "resized-memory": call("aten.resize_.default", torch.zeros(4), [2]),
    "overlapping-memory": call("aten.copy_.default", ROWS[:, 1::2], ROWS[:, 0::2]),
    "accumulation-order": call("aten.sum.default", torch.tensor([3e38, 3e38, 3e38])),  # Inf in any order
    "cancelled-sum": call("aten.sum.default", torch.tensor([1.0, 2.0**-9, -1.0])),
    "unknown-mode": call("aten.grid_sampler_2d.default", torch.ones(1, 1, 2, 2), torch.zeros(1, 1, 1, 2), 2, 2, False),
    "unordered-offsets": call("aten.embedding_bag.default", ROWS, torch.tensor([0, 1, 2]), torch.tensor([0, 1, 1])),
    "unwritten-polynomial": call("aten.special_laguerre_polynomial_l.n_scalar", torch.tensor([0.3, float("inf")]), 7.0),
}


def test_every_rule_has_both_examples_and_says_why():
    assert set(MATCHING) == set(HARMLESS) == set(CALL_RULES)
    for rule in RULES.values():
        assert len(rule.reason) > 20 and rule.reference


def test_sums_of_whole_numbers_have_no_order():
    whole = torch.tensor([[100, 1, -100]], dtype=torch.int8)
    assert matching(call("aten.sum.default", whole)) == matching(call("aten.mm.default", whole, whole.T)) == []


@pytest.mark.parametrize("rule", CALL_RULES)
def test_a_rule_matches_its_pattern(rule):
    assert rule in {r.id for r in matching(MATCHING[rule])}


@pytest.mark.parametrize("rule", CALL_RULES)
def test_a_rule_does_not_match_a_harmless_call(rule):
    assert rule not in {r.id for r in matching(HARMLESS[rule])}


def _shifted(values):
    """Each element but the first takes the value before it, in memory that is read and written at once."""
    values = torch.stack([values, values])
    values[:, 1:].copy_(values[:, :-1])
    return values[0]


REACH = [
    ("float-to-integer", lambda t: t.to(torch.int64), [torch.tensor([NAN, 1.5, 1e30, -2.0])], [0, 2]),
    ("shift-out-of-range", lambda t: t << 64, [torch.tensor([1, 2])], [0, 1]),
    ("nan-bits", lambda t: torch.copysign(torch.ones(3), t), [torch.tensor([NAN, -1.0, 1.0])], [0]),
    ("tie-order", lambda t: torch.argmax(t, -1), [torch.tensor([[1.0, 1.0], [1.0, 2.0]])], [0]),
    ("tie-order", lambda t: t.topk(1, largest=False, sorted=False)[1],
     [torch.tensor([*permutations([0, 0, 3, 2]), (1, 0, 3, 2)])], list(range(24))),
    ("tie-order", lambda t: t.sort(0, descending=True)[1][:, 0], [torch.tensor([[5, 1], [7, 2], [5, 3]])], [1, 2]),
    ("tie-order", lambda t: t.max(1, keepdim=True)[1], [torch.tensor([[NAN, 1.0, NAN], [1.0, 2.0, 2.5]])], [0]),
    ("tie-order", lambda t: t.argmin(), [torch.tensor([[1, 2], [1, 3]])], [0]),
    ("duplicate-writes", lambda t, i, s: t.scatter(0, i, s),
     [torch.zeros(4), torch.tensor([0, 0, 3]), torch.tensor([1.0, 2.0, 3.0])], [0]),
    ("duplicate-writes", lambda t, i, s: t.index_copy(0, i, s),
     [torch.zeros(4), torch.tensor([2, 2]), torch.tensor([1.0, 2.0])], [2]),
    ("random-stream", lambda t: torch.rand(3) + t, [torch.zeros(3)], [0, 1, 2]),
    ("random-stream", lambda t: torch.multinomial(t, 3, True), [torch.tensor([1e-6, 1.0])], [0, 1, 2]),
    ("random-stream", lambda t: (torch.rand(3) > 0.999) & t, [torch.tensor([True, False, True])], [0, 2]),
    ("random-stream", lambda t: t[(torch.rand(2) * 3).long()], [torch.arange(3)], [0, 1]),
    ("random-stream", lambda t: torch.cat([torch.randperm(2), torch.randint(0, 2**40, (1,)), t]), [torch.arange(3)],
     [0, 1, 2]),
    ("uninitialised-memory", lambda t: torch.cat([torch.empty(2), t]), [torch.zeros(2)], [0, 1]),
    ("overlapping-memory", lambda t: _shifted(t), [torch.arange(4.0)], [1, 2, 3]),
    ("denormal-flush", lambda t: t * 2, [torch.tensor([1e-40, 1.0])], [0]),
    ("denormal-flush", lambda t: t.to(torch.bool), [torch.tensor([1e-40, 0.0, NAN, 1.0])], [0]),
    ("accumulation-order", lambda t: t.sum(1), [torch.tensor([[BIG, BIG, -BIG], [BIG, BIG, BIG], [BIG, -1, -BIG]])],
     [0]),
    ("accumulation-order", lambda t: t.sum(1), [torch.tensor([[torch.inf, -BIG, -BIG], [torch.inf, BIG, BIG]])], [0]),
    ("accumulation-order", lambda t: t.mean(1), [torch.tensor([[BIG, BIG], [BIG, -BIG]])], [0]),
    ("accumulation-order", lambda a, b: a @ b, [torch.tensor([[1e20, 1e20, 1.0], [1e10, 1e10, -1e20]]),
     torch.tensor([1e20, -1e20, 1.0])], [0]),
    ("accumulation-order", lambda a, b: a @ b, [torch.tensor([[BIG, 1e20, 1.0], [1.0, 1.0, 1.0]]),
     torch.tensor([BIG, -1e20, 1.0])], [0]),
    ("cancelled-sum", lambda t: 1 / t.sum(1), [torch.tensor([[1.0, 2.0**-25, -1.0], [1.0, 2.0**-25, 1.0]])], [0]),
    ("cancelled-sum", lambda t: t.sum(1).remainder(t.sum(1)),
     [torch.tensor([[1.0, 2.0**-24, -1.0], [2.0, 2.0**-9, -2.0]])], [0]),
    ("accumulation-order", lambda t: t.cumsum(0), [torch.tensor([BIG, -BIG, -BIG, BIG, BIG])], [2, 3, 4]),
    ("accumulation-order", lambda t, i, s: t.index_add(0, i, s),
     [torch.zeros(2), torch.tensor([0, 0, 0, 1]), torch.tensor([BIG, BIG, -BIG, BIG])], [0]),
    ("accumulation-order", lambda t: torch.relu(t.sum(1, dtype=torch.float16)),
     [torch.tensor([[6e4, 6e4, -6e4], [1, 2, -3]], dtype=torch.float16)], [0]),
    ("accumulation-order", lambda t: torch.fft.rfft(t).imag, [torch.tensor([[BIG, BIG, BIG], [1, 2, 3]])], [0, 1]),
    ("unsorted", lambda t: torch.topk(t, 3, sorted=False)[0], [torch.tensor([1.0, 2.0, 3.0, 4.0])], [0, 2]),
]  # fmt: skip


@pytest.mark.parametrize("rule, function, inputs, indices", REACH)
def test_a_rule_reaches_exactly_its_elements(rule, function, inputs, indices):
    found = surveyed(function, *inputs, runs=THOROUGH)
    mask = found.outputs[0].hazards[rule].reshape(-1)
    assert mask.nonzero().reshape(-1).tolist() == indices
    assert rule in found.rules


def test_every_number_has_a_truth_value():
    """NaN is true in C++ and in torch: only a denormal number may be taken for zero."""
    found = surveyed(lambda t: t.to(torch.bool), torch.tensor([NAN, 0.0, -torch.inf, 1e30]), runs=THOROUGH)
    assert not found.rules and not found.outputs[0].hazards


def test_what_chance_does_not_reach_is_not_excused():
    """An index that only NaN makes invalid is no reason to distrust the other output."""
    found = surveyed(lambda t: (t[(torch.rand(2) * 3).long()], t * 2), torch.arange(3.0), runs=THOROUGH)
    assert "random-stream" in found.outputs[0].hazards and not found.outputs[1].hazards


def test_dropout_of_nothing_is_no_chance():
    found = surveyed(lambda t: torch.dropout(t, 0.0, True), torch.arange(3.0), runs=THOROUGH)
    assert not found.rules


def test_only_chance_that_decides_a_shape_may_change_it():
    x = torch.arange(64.0)
    fixed = survey(lambda t: torch.rand(64) + t, Inputs.of([x], {}), runs=THOROUGH).outputs[0]
    drawn = survey(lambda t: t[torch.rand(64) > 0.5], Inputs.of([x], {}), runs=THOROUGH).outputs[0]
    assert (fixed.reshaped_by, drawn.reshaped_by) == ("", "random-stream")


def test_a_hazard_that_reaches_no_output_leaves_no_mask():
    found = surveyed(lambda t: torch.empty_like(t).fill_(0.0) + t, torch.ones(3), runs=THOROUGH)
    assert "uninitialised-memory" in found.rules and not found.outputs[0].hazards


def test_signs_of_vectors_do_not_reach_what_does_not_depend_on_them():
    matrix = torch.tensor([[2.0, 1.0], [1.0, 3.0]])

    def rebuild(t):
        values, vectors = torch.linalg.eigh(t)
        return vectors, vectors @ torch.diag(values) @ vectors.T

    found = surveyed(rebuild, matrix, runs=THOROUGH)
    assert found.outputs[0].hazards["vector-sign"].all()
    assert "vector-sign" not in found.outputs[1].hazards or not found.outputs[1].hazards["vector-sign"].any()


def test_a_division_that_would_trap_is_not_made():
    smallest = torch.tensor([-(2**63)])
    trap = call("aten.div.Tensor_mode", smallest, torch.tensor([-1]), rounding_mode="trunc")
    assert trap.make().tolist() == [-(2**63)]
    found = surveyed(lambda a, b: torch.div(a, b, rounding_mode="trunc"), smallest, torch.tensor([-1]), runs=THOROUGH)
    assert found.outputs[0].hazards["integer-division"].all()
    by_zero = surveyed(lambda a: a // 0, torch.tensor([5]), runs=THOROUGH)
    assert by_zero.outputs[0].hazards["integer-division"].all()

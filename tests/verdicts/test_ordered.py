"""Index outputs are compared through the values that they select."""

from __future__ import annotations

import torch

from mindgap.records.verdict import Blame, Conclusion, Kind
from mindgap.verdicts.judge import judge
from tests.verdicts.programs import ok, surveyed


def verdict(survey, eager, candidate):
    return judge(ok("eager", *eager), [ok("c", *candidate)], survey)["c"].verdict


def test_ties_are_a_hazard():
    x = torch.tensor([3.0, 1.0, 3.0, 2.0])
    known = surveyed(lambda t: torch.sort(t), x)
    values = torch.tensor([1.0, 2.0, 3.0, 3.0])
    first, second = torch.tensor([1, 3, 0, 2]), torch.tensor([1, 3, 2, 0])
    found = verdict(known, (values, first), (values, second))
    assert (found.conclusion, found.rule) == (Conclusion.HAZARD, "tie-order")


def test_disorder_is_found_and_blamed():
    x = torch.tensor([3.0, 1.0, 4.0, 2.0])
    known = surveyed(lambda t: torch.argsort(t), x)
    right, wrong = torch.tensor([1, 3, 0, 2]), torch.tensor([1, 0, 3, 2])
    found = verdict(known, (right,), (wrong,))
    assert (found.conclusion, found.kind, found.blame) == (Conclusion.DIVERGES, Kind.ORDER, Blame.CANDIDATE)
    assert verdict(known, (wrong,), (right,)).blame is Blame.EAGER


def test_near_ties_within_the_noise_are_rounding():
    x = torch.tensor([0.1, 0.5, 0.9])
    known = surveyed(lambda t: torch.argmax(torch.stack([t.sum() * 0.1, (t * 0.1).sum(), t[0]])), x)
    found = verdict(known, (torch.tensor(0),), (torch.tensor(1),))
    assert found.conclusion in (Conclusion.ROUNDING, Conclusion.HAZARD)
    found = verdict(known, (torch.tensor(0),), (torch.tensor(2),))
    assert found.conclusion is Conclusion.DIVERGES


def test_indices_that_do_not_exist_or_repeat_are_wrong():
    x = torch.tensor([[3.0, 3.0, 1.0], [1.0, 2.0, 3.0]])
    known = surveyed(lambda t: torch.topk(t, 2, dim=-1), x)
    values, right = torch.topk(x, 2, dim=-1)
    outside = right.clone()
    outside[1, 0] = 7
    assert verdict(known, (values, right), (values, outside)).conclusion is Conclusion.DIVERGES
    repeated = torch.tensor([[0, 0], [2, 1]])
    assert verdict(known, (values, right), (values, repeated)).conclusion is Conclusion.DIVERGES


def test_indices_along_any_dimension_and_in_pooling():
    x = torch.arange(24.0).reshape(2, 3, 4)
    known = surveyed(lambda t: torch.max(t, 1), x)
    values, right = torch.max(x, 1)
    assert verdict(known, (values, right), (values, right - 1)).kind is Kind.ORDER
    image = torch.ones(1, 1, 4, 4)
    pooled = surveyed(lambda t: torch.nn.functional.max_pool2d(t, 2, return_indices=True), image)
    values, right = torch.nn.functional.max_pool2d(image, 2, return_indices=True)
    assert verdict(pooled, (values, right), (values, right + 1)).conclusion is Conclusion.HAZARD


def test_a_stable_sort_promises_the_order_of_ties():
    x = torch.tensor([3.0, 1.0, 3.0, 2.0])
    known = surveyed(lambda t: torch.sort(t, stable=True), x)
    values = torch.tensor([1.0, 2.0, 3.0, 3.0])
    found = verdict(known, (values, torch.tensor([1, 3, 0, 2])), (values, torch.tensor([1, 3, 2, 0])))
    assert found.conclusion is Conclusion.DIVERGES


def test_where_a_sum_overflows_in_one_order_only_its_place_is_unspecified():
    big = 3e38
    x = torch.tensor([[big, big, -big, -big], [1.0, 2.0, 3.0, 4.0], [-big, -big, big, 0.0]])

    def smallest(t):
        sums = t.sum(1)
        return sums, sums.argmin()

    known = surveyed(smallest, x)
    one = (torch.tensor([0.0, 10.0, -torch.inf]), torch.tensor(2))
    other = (torch.tensor([torch.nan, 10.0, -big]), torch.tensor(0))
    found = verdict(known, one, other)
    assert (found.conclusion, found.rule) == (Conclusion.HAZARD, "accumulation-order")
    ordinary = surveyed(smallest, x.clamp(-9, 9))
    assert verdict(ordinary, (x[:, 0] * 0, torch.tensor(2)), (x[:, 0] * 0, torch.tensor(1))).kind is Kind.ORDER

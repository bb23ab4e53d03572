"""Experiments tell what kind of cause a difference has; remarks say what it looks like."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from mindgap.records.explanation import CauseKind
from mindgap.records.verdict import Kind
from mindgap.tracing.cause import _is_accuracy, find_cause
from mindgap.tracing.examine import Examiner
from mindgap.tracing.readings import READINGS
from tests.tracing.witnesses import plant, witness_of, writing

NAN = float("nan")


@pytest.mark.parametrize(
    ("fault", "values", "expected"),
    [
        ("nan_dropped", [1.5, NAN], CauseKind.EXCEPTIONAL),
        ("in_bfloat16", [1.234567, 2.345678], CauseKind.PRECISION),
        ("sign_lost", [-1.5, -2.5], CauseKind.IMPLEMENTATION),
        ("tail_lost", [1.5, 2.5, 3.5], CauseKind.IMPLEMENTATION),
    ],
)
def test_planted_faults_get_their_class(
    examiner: Examiner, fault: str, values: list[float], expected: CauseKind
) -> None:
    witness, _ = plant(witness_of(lambda x: x * 3, torch.tensor(values)), "aten.mul", fault)
    found = examiner.examine(witness)
    assert found.symptom is not None
    cause = find_cause(examiner, witness, found, found.symptom, None)
    assert cause.kind is expected and cause.evidence


def test_what_vanishes_with_copies_is_aliasing(examiner: Examiner) -> None:
    witness, _ = plant(witness_of(writing, torch.randn(3, 4)), "aten.select", "stale_view")
    found = examiner.examine(witness)
    assert found.symptom is not None
    assert find_cause(examiner, witness, found, found.symptom, None).kind is CauseKind.LAYOUT


def test_a_failure_has_the_cause_of_the_wrong_value_before_it(examiner: Examiner) -> None:
    def looked_up(index: torch.Tensor, table: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.embedding(index + 100, table)

    witness, _ = plant(witness_of(looked_up, torch.tensor([60, 90]), torch.randn(200, 2)), "aten.add", "narrow_integer")
    found = examiner.examine(witness)
    assert found.symptom is not None and not found.symptom.candidate_runs
    cause = find_cause(examiner, witness, found, found.symptom, None)
    assert cause.kind is CauseKind.PRECISION
    assert cause.remark == "computes in 8 bits, and aten.embedding.default fails because of that"
    assert "out of range" in cause.evidence[0]


@pytest.mark.parametrize(
    ("actual", "right", "words"),
    [
        (torch.tensor([-3]), torch.tensor([-4]), "toward zero"),
        (torch.tensor([-2147483648]), torch.tensor([2147483648]), "32 bits"),
        (torch.tensor([255], dtype=torch.uint8), torch.tensor([4], dtype=torch.uint8), "saturates"),
        (torch.tensor([1.0]), torch.tensor([NAN]), "NaN is due"),
        (torch.tensor([float("inf")]), torch.tensor([3e38]), "overflows"),
        (torch.tensor([1.0, -2.0]), torch.tensor([-1.0, 2.0]), "wrong sign"),
        (torch.tensor([1.0, 2.0, 0.0]), torch.tensor([1.0, 2.0, 3.1]), "last of 3"),
        (torch.tensor([1.1, 2.2]), torch.tensor([1.0, 2.0]), "same factor"),
        (torch.tensor([1.0078125]), torch.tensor([1.01]), "bfloat16"),
    ],
)
def test_a_wrong_result_is_put_in_words(actual: torch.Tensor, right: torch.Tensor, words: str) -> None:
    remarks = [remark for reading in READINGS if (remark := reading(actual, right))]
    assert remarks and words in remarks[0]


def test_what_a_cancellation_leaves_is_no_narrow_type() -> None:
    """Multiples of 2**-24 near 1e-4 are all float16 has there too."""
    x = torch.tensor([1e-4])
    naive = (torch.exp(x) - torch.exp(-x)) / 2
    assert torch.equal(naive, torch.sinh(x).half().float()) and not torch.equal(naive, torch.sinh(x))
    assert not any("float16" in reading(naive, torch.sinh(x)) for reading in READINGS)
    large = torch.tensor([1.2345])
    assert any("float16" in reading(large.half().float(), large) for reading in READINGS)


def test_one_number_has_no_order_of_summation(examiner: Examiner) -> None:
    for values, is_accuracy in (([1.0], False), ([1.0, 2.0], True)):
        witness = witness_of(lambda x: torch.softmax(x, 0), torch.tensor(values))
        found = examiner.examine(witness)
        verdict = replace(found.verdict, kind=Kind.VALUE, error_over_bound=100.0)
        assert _is_accuracy(witness, replace(found, verdict=verdict)) is is_accuracy

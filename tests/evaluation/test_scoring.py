"""A classifier trained on real digits: reordered sums are jitter, a planted fault is a regression."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from mindgap.bench.evaluation import Digits, between, close_case, concluded, repeated, score, trained
from mindgap.evaluation.metrics import Classification
from mindgap.evaluation.scoring import BatchScore, Held
from mindgap.evaluation.verdict import Tally
from mindgap.program.case import Case
from mindgap.records.evaluation import TaskVerdict

REPETITIONS = 20


@pytest.fixture(scope="module")
def digits() -> tuple[Digits, torch.Tensor, torch.Tensor]:
    pytest.importorskip("sklearn")
    return trained()


def test_the_classifier_is_good_enough(digits: tuple[Digits, torch.Tensor, torch.Tensor]) -> None:
    model, images, labels = digits
    assert (model(images).argmax(1) == labels).float().mean() > 0.95


@pytest.fixture(scope="module")
def close(digits: tuple[Digits, torch.Tensor, torch.Tensor]) -> tuple[Case, torch.Tensor]:
    model, images, _ = digits
    inputs = between(model, images, 1)
    return replace(close_case(model, inputs), model=model), inputs


def scored(case: Case, inputs: torch.Tensor, candidate: torch.Tensor) -> BatchScore:
    assert callable(case.model)
    return score(case, case.model(inputs), candidate, Held())


def test_reordered_sums_are_jitter_and_a_planted_fault_is_a_regression(
    digits: tuple[Digits, torch.Tensor, torch.Tensor],
) -> None:
    """`mindgap bench evaluation` repeats it more often, with faults of several sizes (docs/results/evaluation.md)."""
    model, images, _ = digits

    def verdicts(fault: float) -> list[TaskVerdict]:
        return [item.verdict for item in repeated(model, images, fault, REPETITIONS, lambda who, what: None)]

    alone = verdicts(0.0)
    assert TaskVerdict.REGRESSION not in alone
    assert alone.count(TaskVerdict.JITTER) > REPETITIONS / 2, "answers did change"
    assert verdicts(0.01).count(TaskVerdict.REGRESSION) >= REPETITIONS - 1


def test_what_was_computed_alike_agrees(close: tuple[Case, torch.Tensor]) -> None:
    case, inputs = close
    assert callable(case.model)
    found = scored(case, inputs, case.model(inputs))
    assert concluded(found).verdict is TaskVerdict.AGREES
    assert found.noise, "noise changes answers on the boundary"


def test_a_flip_has_its_margin_and_what_float64_says(close: tuple[Case, torch.Tensor]) -> None:
    case, inputs = close
    assert callable(case.model)
    given = case.model(inputs)
    wrong = given.clone()
    wrong[7] = -wrong[7]
    found = scored(case, inputs, wrong)
    flips = found.platforms["other"].flips
    assert [flip.sample for flip in flips] == [7]
    assert flips[0].eager == str(int(given[7].argmax())) and flips[0].float64
    assert flips[0].margin is not None and flips[0].margin > 1
    assert flips[0].margin_over_noise is not None and flips[0].margin_over_noise > 1000


def test_far_from_every_boundary_one_noise_run_is_enough(close: tuple[Case, torch.Tensor]) -> None:
    case, inputs = close
    assert isinstance(case.model, Digits)
    margins = case.model(inputs).topk(2, 1).values
    far = inputs[(margins[:, 0] - margins[:, 1]) > 1e-3]
    if not len(far):
        pytest.skip("all mixtures are on a boundary")
    found = scored(case_of_rows(case, far), far, case.model(far))
    assert found.noise == {} and found.noise_runs == 8


def case_of_rows(case: Case, inputs: torch.Tensor) -> Case:
    assert isinstance(case.model, Digits)
    return replace(close_case(case.model, inputs), model=case.model)


def test_a_platform_that_failed_or_answers_something_else(close: tuple[Case, torch.Tensor]) -> None:
    case, inputs = close
    found = scored(case, inputs, torch.zeros(3, 4))
    tally = Tally(Classification(), ["other"])
    tally.add(found)
    assert tally.failed("other")
    assert tally.verdicts()["other"].verdict is TaskVerdict.FAILED

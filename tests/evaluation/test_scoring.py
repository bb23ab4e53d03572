"""A classifier trained on real digits: reordered sums are jitter, a planted fault is a regression, 200 times each."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch import nn

from mindgap.corpus.casing import case_of
from mindgap.corpus.loaded import Loaded
from mindgap.evaluation.metrics import Classification
from mindgap.evaluation.reading import Batch
from mindgap.evaluation.scoring import BatchScore, ScoreBatch, _Held, _Scoring
from mindgap.evaluation.statistics import LEVEL
from mindgap.evaluation.verdict import Tally
from mindgap.execution.parcel import Parcel
from mindgap.program.case import Case
from mindgap.records.evaluation import TaskVerdict
from mindgap.records.outcome import Outcome, Stage, Status
from mindgap.records.tensors import NamedTensor

REPETITIONS = 200


class Digits(nn.Module):
    """Two layers: enough for 8 x 8 pixels."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(64, 48)
        self.second = nn.Linear(48, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.second(torch.relu(self.first(x.flatten(1))))


def trained() -> tuple[Digits, torch.Tensor, torch.Tensor]:
    """The classifier, and the images and labels that it has not seen."""
    digits = pytest.importorskip("sklearn.datasets").load_digits()
    torch.manual_seed(0)
    order = torch.randperm(len(digits.target))
    images = torch.tensor(digits.images, dtype=torch.float32)[order] / 16
    labels = torch.tensor(digits.target)[order]
    model = Digits()
    optimizer = torch.optim.Adam(model.parameters(), 0.01)
    for _ in range(120):
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(images[:1200]), labels[:1200]).backward()
        optimizer.step()
    model.eval().requires_grad_(False)
    return model, images[1200:], labels[1200:]


@pytest.fixture(scope="module")
def digits() -> tuple[Digits, torch.Tensor, torch.Tensor]:
    return trained()


def test_the_classifier_is_good_enough(digits: tuple[Digits, torch.Tensor, torch.Tensor]) -> None:
    model, images, labels = digits
    assert (model(images).argmax(1) == labels).float().mean() > 0.95


def between(model: Digits, images: torch.Tensor, count: int) -> torch.Tensor:
    """Mixtures of two digits on the boundary between two answers, found by bisection; then a step away from it."""
    wide = Digits().double()
    wide.load_state_dict(model.state_dict())
    pairs = torch.randperm(len(images), generator=torch.Generator().manual_seed(1))[: 2 * count].view(2, count)
    first, second = images[pairs[0]].double(), images[pairs[1]].double()
    start = wide(first).argmax(1)
    least, most = torch.zeros(count).double(), torch.ones(count).double()
    for _ in range(45):
        middle = (least + most) / 2
        mixed = first + (second - first) * middle.view(-1, 1, 1)
        same = wide(mixed).argmax(1) == start
        least, most = torch.where(same, middle, least), torch.where(same, most, middle)
    steps = torch.linspace(-1, 1, count).double() ** 5  # most of them near the boundary
    mixed = first + (second - first) * (least + steps * 1e-4).clamp(0, 1).view(-1, 1, 1)
    return mixed.float()


def scored(case: Case, inputs: torch.Tensor, candidate: torch.Tensor, held: _Held) -> BatchScore:
    """What evaluate does with one batch; `candidate` is what the platform gave."""
    count = len(inputs)

    def outcome(name: str, tensor: torch.Tensor) -> Outcome:
        return Outcome(name, Status.OK, Stage.RUN, outputs=(NamedTensor("output", tensor),))

    assert callable(case.model)
    eager = outcome("eager", case.model(inputs))
    batch = Batch(tuple(range(count)), tuple(map(str, range(count))))
    request = ScoreBatch(
        Parcel(structure="digits"), batch, count, "classification", eager, (outcome("other", candidate),), 8
    )
    return _Scoring(request, case, held).scored()


def verdict(score: BatchScore) -> TaskVerdict:
    tally = Tally(Classification(), ["other"])
    tally.add(score)
    return tally.verdicts()["other"].verdict


@pytest.fixture(scope="module")
def close(digits: tuple[Digits, torch.Tensor, torch.Tensor]) -> tuple[Case, torch.Tensor]:
    model, images, _ = digits
    inputs = between(model, images, 120)
    case = case_of(Loaded("digits", (inputs,), {}, model=model), None, 0)
    return replace(case, model=model), inputs


def reordered(model: Digits, inputs: torch.Tensor, seed: int) -> torch.Tensor:
    """The same network with its sums in another order: what another kernel does."""
    generator = torch.Generator().manual_seed(seed)
    pixels, units = torch.randperm(64, generator=generator), torch.randperm(48, generator=generator)
    hidden = torch.zeros(len(inputs), 48) + model.first.bias[units]
    flat = inputs.flatten(1)
    for part in pixels.split(16):  # and in pieces, as blocked kernels add
        hidden = hidden + flat[:, part] @ model.first.weight[units][:, part].T
    return torch.relu(hidden) @ model.second.weight[:, units].T + model.second.bias


def test_reordered_sums_are_jitter(close: tuple[Case, torch.Tensor]) -> None:
    case, inputs = close
    assert isinstance(case.model, Digits)
    held = _Held()
    others = (reordered(case.model, inputs, seed) for seed in range(REPETITIONS))
    found = [verdict(scored(case, inputs, other, held)) for other in others]
    assert found.count(TaskVerdict.REGRESSION) <= REPETITIONS * LEVEL
    assert found.count(TaskVerdict.JITTER) > REPETITIONS / 2, "answers did change"


def test_a_planted_fault_is_a_regression(close: tuple[Case, torch.Tensor]) -> None:
    """The bias of one class is off by 0.01, on top of sums in another order."""
    case, inputs = close
    assert isinstance(case.model, Digits)
    held, found = _Held(), []
    for seed in range(REPETITIONS):
        faulty = Digits().eval().requires_grad_(False)
        faulty.load_state_dict(case.model.state_dict())
        faulty.second.bias[seed % 10] += 0.01 if seed % 20 < 10 else -0.01
        found.append(verdict(scored(case, inputs, reordered(faulty, inputs, seed), held)))
    assert REPETITIONS - found.count(TaskVerdict.REGRESSION) <= REPETITIONS * LEVEL


def test_what_was_computed_alike_agrees(close: tuple[Case, torch.Tensor]) -> None:
    case, inputs = close
    assert callable(case.model)
    score = scored(case, inputs, case.model(inputs), _Held())
    assert verdict(score) is TaskVerdict.AGREES
    assert score.noise, "noise changes answers on the boundary"


def test_a_flip_has_its_margin_and_what_float64_says(close: tuple[Case, torch.Tensor]) -> None:
    case, inputs = close
    assert callable(case.model)
    given = case.model(inputs)
    wrong = given.clone()
    wrong[7] = -wrong[7]
    score = scored(case, inputs, wrong, _Held())
    flips = score.platforms["other"].flips
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
    score = scored(case_of_rows(case, far), far, case.model(far), _Held())
    assert score.noise == {} and score.noise_runs == 8


def case_of_rows(case: Case, inputs: torch.Tensor) -> Case:
    assert case.model is not None
    made = case_of(Loaded("digits", (inputs,), {}, model=case.model), None, 0)
    return replace(made, model=case.model)


def test_a_platform_that_failed_or_answers_something_else(close: tuple[Case, torch.Tensor]) -> None:
    case, inputs = close
    score = scored(case, inputs, torch.zeros(3, 4), _Held())
    tally = Tally(Classification(), ["other"])
    tally.add(score)
    assert tally.failed("other")
    assert tally.verdicts()["other"].verdict is TaskVerdict.FAILED

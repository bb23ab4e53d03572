"""False calls of an evaluation: sums in another order must be jitter, a planted fault a regression."""

from __future__ import annotations

from collections import Counter
from typing import Any, Final

import torch
from torch import nn

from mindgap.bench.measurement import Measurement, Row, Tell, median
from mindgap.corpus.casing import case_of
from mindgap.corpus.loaded import Loaded
from mindgap.errors import UsageError
from mindgap.evaluation.metrics import Classification
from mindgap.evaluation.reading import Batch
from mindgap.evaluation.scoring import BatchScore, Held, ScoreBatch, Scoring
from mindgap.evaluation.statistics import LEVEL, proportion_interval
from mindgap.evaluation.verdict import Tally
from mindgap.execution.parcel import Parcel
from mindgap.platforms.versions import versions
from mindgap.program.case import Case
from mindgap.records.evaluation import PlatformEvaluation, TaskVerdict
from mindgap.records.outcome import Outcome, Stage, Status
from mindgap.records.tensors import NamedTensor

FAULTS: Final = (0.0, 1e-6, 1e-5, 1e-4, 1e-3, 1e-2)
"""By how much the bias of one class is off; the outputs of the classifier are about 10."""
CLOSE: Final = 120
"""Inputs near the boundary between two answers, of each repetition."""
NOISE_RUNS: Final = 8
TRAINED_ON: Final = 1200
STEPS: Final = 120


class Digits(nn.Module):
    """Two layers: enough for 8 x 8 pixels."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(64, 48)
        self.second = nn.Linear(48, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        found: torch.Tensor = self.second(torch.relu(self.first(x.flatten(1))))
        return found


def trained() -> tuple[Digits, torch.Tensor, torch.Tensor]:
    """A classifier of real digits, and the images and labels that it has not seen."""
    try:
        from sklearn.datasets import load_digits
    except ModuleNotFoundError as error:
        raise UsageError("the real digits come from scikit-learn", hint="pip install scikit-learn") from error
    digits: Any = load_digits()
    torch.manual_seed(0)
    order = torch.randperm(len(digits.target))
    images = torch.tensor(digits.images, dtype=torch.float32)[order] / 16
    labels = torch.tensor(digits.target)[order]
    model = Digits()
    optimizer = torch.optim.Adam(model.parameters(), 0.01)
    for _ in range(STEPS):
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(images[:TRAINED_ON]), labels[:TRAINED_ON])
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
    model.eval().requires_grad_(False)
    return model, images[TRAINED_ON:], labels[TRAINED_ON:]


def between(model: Digits, images: torch.Tensor, seed: int, count: int = CLOSE) -> torch.Tensor:
    """Mixtures of two digits on the boundary between two answers, found by bisection; then a step away from it."""
    wide = Digits().double()
    wide.load_state_dict(model.state_dict())
    pairs = torch.randperm(len(images), generator=torch.Generator().manual_seed(seed))[: 2 * count].view(2, count)
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


def reordered(model: Digits, inputs: torch.Tensor, seed: int) -> torch.Tensor:
    """The same network with its sums in another order and in pieces: what another kernel does."""
    generator = torch.Generator().manual_seed(seed)
    pixels, units = torch.randperm(64, generator=generator), torch.randperm(48, generator=generator)
    hidden = torch.zeros(len(inputs), 48) + model.first.bias[units]
    flat = inputs.flatten(1)
    for part in pixels.view(4, 16):  # as blocked kernels add
        hidden = hidden + flat[:, part] @ model.first.weight[units][:, part].T
    return torch.relu(hidden) @ model.second.weight[:, units].T + model.second.bias


def off_by(model: Digits, size: float, seed: int) -> Digits:
    """The network with the bias of one class off."""
    faulty = Digits().eval().requires_grad_(False)
    faulty.load_state_dict(model.state_dict())
    faulty.second.bias[seed % 10] += size if seed % 20 < 10 else -size
    return faulty


def close_case(model: Digits, inputs: torch.Tensor) -> Case:
    """The classifier as the program that evaluations run."""
    return case_of(Loaded("digits", (inputs,), {}, model=model), None, 0)


def score(case: Case, eager: torch.Tensor, candidate: torch.Tensor, held: Held) -> BatchScore:
    """What an evaluation makes of one batch, given what eager and the platform answered."""
    count = len(eager)

    def outcome(name: str, tensor: torch.Tensor) -> Outcome:
        return Outcome(name, Status.OK, Stage.RUN, outputs=(NamedTensor("output", tensor),))

    batch = Batch(tuple(range(count)), tuple(map(str, range(count))))
    asked = ScoreBatch(
        Parcel(structure="digits"), batch, count, "classification", outcome("eager", eager),
        (outcome("other", candidate),), NOISE_RUNS,
    )  # fmt: skip
    return Scoring(asked, case, held).scored()


def concluded(found: BatchScore) -> PlatformEvaluation:
    """The verdict of an evaluation with that single batch."""
    tally = Tally(Classification(), ["other"])
    tally.add(found)
    return tally.verdicts()["other"]


def repeated(
    model: Digits, images: torch.Tensor, fault: float, repetitions: int, tell: Tell
) -> list[PlatformEvaluation]:
    """Each repetition has its own inputs and its own order of sums."""
    held, found = Held(), []
    case = close_case(model, between(model, images, 0))
    for seed in range(repetitions):
        tell("evaluation", f"{_fault(fault)}: {seed} of {repetitions}")
        inputs = between(model, images, seed)
        given = reordered(off_by(model, fault, seed), inputs, seed)
        found.append(concluded(score(case.with_tensors([inputs]), model(inputs), given, held)))
    return found


def measure(tell: Tell, repetitions: int = 200) -> Measurement:
    """Repeat an evaluation without a fault and with faults of several sizes; a row per size."""
    model, images, labels = trained()
    right = float((model(images).argmax(1) == labels).float().mean())
    rows = [_row(fault, repeated(model, images, fault, repetitions, tell)) for fault in FAULTS]
    false = rows[0]["regression"]
    return Measurement(
        name="evaluation",
        what="verdicts of evaluations: sums in another order, alone and with a bias that is off",
        on=f"{repetitions} repetitions each, {CLOSE} inputs near a boundary between two answers, {NOISE_RUNS} noise "
        f"runs; a classifier of scikit-learn's digits, {right:.1%} right on {len(images)} that it has not seen",
        rows=rows,
        conclusion=f"Sums in another order are called a regression in {false} of {repetitions}; the stated level is "
        f"{LEVEL:.0%}, {LEVEL * repetitions:g} of {repetitions}.",
        versions=versions([]),
    )


def _fault(size: float) -> str:
    return f"a bias off by {size:g}" if size else "none"


def _row(fault: float, found: list[PlatformEvaluation]) -> Row:
    counts = Counter(item.verdict for item in found)
    least, most = proportion_interval(counts[TaskVerdict.REGRESSION], len(found))
    return {
        "fault": _fault(fault),
        **{word.value: counts[word] for word in (TaskVerdict.AGREES, TaskVerdict.JITTER, TaskVerdict.REGRESSION)},
        "95% interval": f"{least:.1%} to {most:.1%}",
        "by the test": sum(item.p_value < LEVEL for item in found),
        "by a margin": sum(item.beyond > 0 for item in found),
        "median changed": median([item.changed for item in found]),
        "median explained": median([item.explained for item in found]),
    }

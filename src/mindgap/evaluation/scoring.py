"""Scoring a batch in a worker: the answers of all platforms, of runs with rounding noise, and of float64."""

from __future__ import annotations

import math
import sys
import traceback
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import torch

from mindgap.corpus.sources.python_file import function_in
from mindgap.errors import MindgapError, UsageError
from mindgap.evaluation.metrics import BUILT_IN, Answers, LabelTask, Task, UserTask
from mindgap.evaluation.reading import Batch
from mindgap.evaluation.spelling import is_function
from mindgap.execution import arena
from mindgap.execution.arena import opened
from mindgap.execution.parcel import Constants, Parcel, open_parcel
from mindgap.execution.tasks import Worker, hosting, task
from mindgap.program.case import Case
from mindgap.records.evaluation import Flip
from mindgap.records.outcome import Outcome
from mindgap.records.source import Source
from mindgap.verdicts.factors import pool_for
from mindgap.verdicts.noise import Noise
from mindgap.verdicts.onnx_runner import OnnxFile
from mindgap.verdicts.reference import Wide
from mindgap.verdicts.runner import HookedRunner, ProgramRunner

CALM: Final = 8.0
"""Where no margin of a batch is below so many times the largest move of any output in one noise run, further runs
change no answer: two outputs would have to move four times as far."""

Outputs = Mapping[str, torch.Tensor]


@dataclass(frozen=True, slots=True)
class ScoreBatch:
    """What the platforms gave for a batch."""

    parcel: Parcel
    batch: Batch
    size: int
    """Rows of the batch, those that only fill it included."""
    task: str
    eager: Outcome
    candidates: tuple[Outcome, ...]
    noise_runs: int
    output: str | None = None
    classes: tuple[str, ...] = ()
    source: Source | None = None
    """Where a task of the user's own lies."""


@dataclass(frozen=True, slots=True)
class PlatformScore:
    """One platform on a batch."""

    totals: dict[str, list[float]] = field(default_factory=dict)
    changed: dict[int, float] = field(default_factory=dict)
    """By sample: how much of the answer is another one than eager's."""
    flips: tuple[Flip, ...] = ()
    lost: int = 0
    won: int = 0
    failure: str = ""


@dataclass(frozen=True, slots=True)
class BatchScore:
    """A batch: eager, the platforms, and what rounding changes."""

    samples: int
    totals: dict[str, list[float]]
    platforms: dict[str, PlatformScore]
    noise: dict[int, list[float]] = field(default_factory=dict)
    """By sample: how much each noise run changed; samples that none changed are left out."""
    noise_runs: int = 0
    skipped: tuple[str, ...] = ()


@hosting(MindgapError)
@task
def score_batch(worker: Worker, request: ScoreBatch) -> BatchScore:
    """The answers of every platform, and those that rounding explains."""
    return Scoring(request, open_parcel(request.parcel, worker.keep(Constants)), worker.keep(Held)).scored()


class Held:
    """The program and the task of the last batch, ready to run."""

    def __init__(self) -> None:
        self._runner: tuple[str, HookedRunner] | None = None
        self._task: tuple[str, str | None, Task] | None = None

    def runner(self, structure: str, case: Case) -> HookedRunner:
        if self._runner is None or self._runner[0] != structure:
            made: HookedRunner
            if case.file:
                made = OnnxFile(case.file).runner(case.inputs, case.seed)
            else:
                made = ProgramRunner(case.graph, case.constants, case.inputs, case.seed)
            self._runner = structure, made
        runner = self._runner[1]
        runner.inputs = case.inputs
        return runner

    def task(self, name: str, output: str | None, source: Source | None) -> Task:
        if self._task is None or self._task[:2] != (name, output):
            self._task = name, output, task_of(name, output, source)
        return self._task[2]


class Scoring:
    """One batch."""

    def __init__(self, request: ScoreBatch, case: Case, held: Held) -> None:
        self.request = request
        self.count = len(request.batch.samples)
        self.task = held.task(request.task, request.output, request.source)
        self.inputs = [tensor[: self.count] for tensor in case.tensors]
        self.runner = held.runner(request.parcel.structure, case)
        entry = request.batch.labels
        self.labels = arena.read(Path(request.parcel.inputs_file), [entry])[0] if entry is not None else None
        self.baseline = self._rows(_named(opened(request.eager)))
        self.base = self._answers(self.baseline)

    def scored(self) -> BatchScore:
        candidates = [self._candidate(outcome) for outcome in self.request.candidates]
        margins = _Margins(self.task, self.baseline, self.base, [c for c in candidates if c.changes.any()])
        noise, runs = self._noise(margins)
        wide = self._wide() if any(bool(c.changes.any()) for c in candidates) else None
        samples = self.request.batch.samples
        return BatchScore(
            self.count,
            self.base.totals,
            {c.platform: self._score(c, margins, wide) for c in candidates},
            {samples[i]: row for i, row in enumerate(noise.tolist()) if any(row)},
            runs,
            self.request.batch.skipped,
        )

    def _rows(self, outputs: Outputs) -> dict[str, torch.Tensor]:
        """Without the rows that only fill the batch."""
        size = self.request.size
        return {
            name: tensor[: self.count] if tensor.dim() and tensor.shape[0] == size else tensor
            for name, tensor in outputs.items()
        }

    def _answers(self, outputs: Outputs) -> Answers:
        return self.task.answers(outputs, self.labels, self.inputs)

    def _candidate(self, outcome: Outcome) -> _Candidate:
        nothing = torch.zeros(self.count)
        if not outcome.ok:
            what = f"{outcome.status.value} at {outcome.stage.value}: {outcome.message}"
            return _Candidate(outcome.platform, None, nothing, what)
        try:
            answers = self._answers(self._rows(_named(opened(outcome))))
            if answers.values.shape != self.base.values.shape:
                raise UsageError(f"its answers are {list(answers.values.shape)}, not {list(self.base.values.shape)}")
        except UsageError as error:
            return _Candidate(outcome.platform, None, nothing, "; ".join(filter(None, [error.what, error.cause])))
        return _Candidate(outcome.platform, answers, self.task.changes(self.base, answers))

    def _noise(self, margins: _Margins) -> tuple[torch.Tensor, int]:
        """How much of each answer every noise run changed, and how many runs speak."""
        found: list[torch.Tensor] = []
        pool = pool_for(self.runner.seed)
        hook = Noise(pool)
        wanted = self.request.noise_runs
        for number in range(wanted):
            pool.restart(self.runner.seed * 7919 + number)
            try:
                outputs = self._rows(self.runner.run(hook))
                changes = self.task.changes(self.base, self._answers(outputs))
            except Exception:  # noise led to a value that the program refuses
                sys.stderr.write(traceback.format_exc())
                continue
            found.append(changes.to(torch.float64))
            if margins.add(outputs) and number == 0:
                found += [torch.zeros(self.count, dtype=torch.float64)] * (wanted - 1)
                break
        return (torch.stack(found, 1) if found else torch.zeros(self.count, 0)), len(found)

    def _wide(self) -> Answers | None:
        """What float64 answers."""
        try:
            return self._answers(self._rows(self.runner.run(Wide(), wide=True)))
        except Exception:  # not every operator has a float64 kernel
            sys.stderr.write(traceback.format_exc())
            return None

    def _score(self, candidate: _Candidate, margins: _Margins, wide: Answers | None) -> PlatformScore:
        if candidate.answers is None:
            return PlatformScore(failure=candidate.failure)
        rows = candidate.changes.nonzero().flatten().tolist()
        samples = self.request.batch.samples
        lost = won = 0
        if self.base.right is not None and candidate.answers.right is not None:
            lost = int((self.base.right & ~candidate.answers.right).sum())
            won = int((~self.base.right & candidate.answers.right).sum())
        return PlatformScore(
            candidate.answers.totals,
            {samples[row]: float(candidate.changes[row]) for row in rows},
            tuple(self._flip(candidate, candidate.answers, row, margins, wide) for row in rows),
            lost,
            won,
        )

    def _flip(self, candidate: _Candidate, answers: Answers, row: int, margins: _Margins, wide: Answers | None) -> Flip:
        place, margin, over = margins.worst(candidate.platform, row)
        label = ""
        if self.labels is not None and self.labels.dim() == 1 and not self.labels.is_floating_point():
            label = str(int(self.labels[row]))
        eager, other, wide_answer = (
            self.task.told(item, row, place) if item is not None else "" for item in (self.base, answers, wide)
        )
        if place is None and isinstance(self.task, LabelTask):
            label, eager, other, wide_answer = map(self._named_class, (label, eager, other, wide_answer))
        sample, name = self.request.batch.samples[row], self.request.batch.names[row]
        changed = float(candidate.changes[row])
        first = self.task.first_change(self.base, answers, row)
        return Flip(sample, name, changed, label, eager, other, wide_answer, margin, over, first)

    def _named_class(self, label: str) -> str:
        classes = self.request.classes
        return f"{label} ({classes[int(label)]})" if label and int(label) < len(classes) else label


@dataclass(frozen=True)
class _Candidate:
    platform: str
    answers: Answers | None
    changes: torch.Tensor
    failure: str = ""


class _Margins:
    """How much eager preferred its answers, and how far rounding moves that; only labels have margins."""

    def __init__(self, task: Task, outputs: Outputs, base: Answers, candidates: Sequence[_Candidate]) -> None:
        self.task = task if isinstance(task, LabelTask) else None
        if self.task is None:
            return
        self.values = task.chosen(outputs)
        self.base = base.values
        # Against the second best, for what noise does to a margin anywhere in the batch.
        without = self.values.double().scatter(self.task.axis, self._index(self.base), -math.inf)
        self.others = {"": without.argmax(self.task.axis)}
        self.others |= {c.platform: c.answers.values for c in candidates if c.answers is not None}
        self.margins = {name: self._margin(self.values, other) for name, other in self.others.items()}
        self.spreads = {name: torch.zeros_like(margin) for name, margin in self.margins.items()}

    def _index(self, labels: torch.Tensor) -> torch.Tensor:
        assert self.task is not None
        return labels.unsqueeze(self.task.axis)

    def _margin(self, values: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
        assert self.task is not None
        picked = [values.gather(self.task.axis, self._index(labels)).double() for labels in (self.base, other)]
        return (picked[0] - picked[1]).squeeze(self.task.axis)

    def add(self, outputs: Outputs) -> bool:
        """Another noise run; returns whether it is certain that no other run changes an answer."""
        if self.task is None:
            return False
        noisy = self.task.chosen(outputs)
        for name, other in self.others.items():
            moved = (self._margin(noisy, other) - self.margins[name]).abs().nan_to_num(0.0, 0.0, 0.0)
            self.spreads[name] = torch.maximum(self.spreads[name], moved)
        largest = (noisy.double() - self.values.double()).abs().max()
        return bool(self.margins[""].min() > CALM * largest)  # NaN is never calm

    def worst(self, platform: str, row: int) -> tuple[int | None, float | None, float | None]:
        """Of a sample that changed: the position, its margin, and that as a multiple of what rounding moves."""
        if self.task is None:
            return None, None, None
        changed = (self.others[platform] != self.base)[row].flatten()
        margin = self.margins[platform][row].flatten()
        usual = self.spreads[""].median()  # few runs may leave one margin alone by chance
        spread = torch.maximum(self.spreads[platform][row].flatten(), usual)
        over = torch.where(margin == 0, torch.zeros_like(margin), margin / spread)
        over = torch.where(changed, over.nan_to_num(math.inf), torch.full_like(over, -1.0))
        place = int(over.argmax())
        known = None if math.isnan(float(margin[place])) else float(margin[place])
        return (place if changed.numel() > 1 else None), known, min(float(over[place]), sys.float_info.max)


def task_of(name: str, output: str | None, source: Source | None) -> Task:
    """The task of a name, or of a function in a file that the user trusts."""
    if not is_function(name):
        return BUILT_IN[name](output)
    assert source is not None and source.trust
    function: Any = function_in(name, source)
    return UserTask(function, name)


def _named(outcome: Outcome) -> dict[str, torch.Tensor]:
    if not outcome.ok:
        raise UsageError(f"eager could not run it: {outcome.message}")
    return {item.name: item.tensor for item in outcome.outputs}

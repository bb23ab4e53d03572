"""What a worker does with each program of a batch: run it on its platform, or judge those who ran it."""

from __future__ import annotations

import sys
import traceback
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import torch

from mindgap.corpus.inputs import of_program
from mindgap.errors import CorruptProgram, MindgapError, NoSpace
from mindgap.execution import arena
from mindgap.execution.batch import Job, Question, digest_of, verdict_message
from mindgap.execution.related import judge_related
from mindgap.platforms.base import Platform, StageClock, Task
from mindgap.platforms.messages import first_cause
from mindgap.program.codec import decode
from mindgap.program.graph import Constant, Program, Ref, digest
from mindgap.program.inputs import Inputs, copy_of
from mindgap.program.made import Held, recreate
from mindgap.records.outcome import Stage, Status
from mindgap.records.tensors import NamedTensor, same_outputs
from mindgap.records.verdict import Conclusion, Verdict

CACHE_BYTES: Final = 512 << 20
"""Weights that a worker keeps: the variants of one base share nearly all of them."""


@dataclass
class Weights:
    """Constants by digest, made once and kept while there is room."""

    room: int = CACHE_BYTES
    _kept: OrderedDict[str, torch.Tensor] = field(default_factory=OrderedDict)
    _bytes: int = 0

    def of(self, program: Program, directory: str) -> dict[str, torch.Tensor]:
        """Every constant of a program; those that no seed gives are read from files."""
        found: dict[str, torch.Tensor] = {}
        for constant in program.constants:
            tensor = self._kept.get(constant.digest)
            if tensor is None:
                tensor = self._make(constant, program, directory)
            else:
                self._kept.move_to_end(constant.digest)
            found[constant.digest] = tensor
        return found

    def _make(self, constant: Constant, program: Program, directory: str) -> torch.Tensor:
        recipe = constant.made or Held(_read(Path(directory) / constant.digest, constant))
        made = recreate(recipe, constant.meta)
        if digest(made) != constant.digest:
            raise CorruptProgram(f"constant {constant.name} does not have its digest", where=program.name)
        # Kernels choose their path by alignment: torch's own memory gives the same bits in every process.
        tensor = copy_of(made)
        self._kept[constant.digest] = tensor
        self._bytes += tensor.nbytes
        while self._bytes > self.room and len(self._kept) > 1:
            _, oldest = self._kept.popitem(last=False)
            self._bytes -= oldest.nbytes
        return tensor


def _read(path: Path, constant: Constant) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise CorruptProgram(f"constant {constant.name} is missing", where=str(path), cause=error.strerror) from error


def task_of(job: Job, weights: Weights) -> Task:
    """A program with its inputs and weights, made here."""
    program = decode(job.program)
    tensors = of_program(program, 0)
    named = tuple(NamedTensor(item.name, tensor) for item, tensor in zip(program.inputs, tensors))
    inputs = Inputs(tuple(Ref(index) for index in range(len(named))), {}, named)
    return Task(inputs, program=program, constants=weights.of(program, job.weights), seed=job.seed)


def run_job(
    platform: Platform, job: Job, runs: int, file: Path, weights: Weights, on_stage: Callable[[Stage], None]
) -> dict[str, Any]:
    """A `Trial` as plain data, but for the platform's name; the outputs go to `file`."""
    clock = StageClock(on_stage)
    try:
        task = task_of(job, weights)
        prepared = platform.prepare(task, clock)
        outputs = one_run(prepared.run, task, clock)
        stable = None
        for _ in range(runs - 1):
            stable = (stable is not False) and same_outputs(outputs, one_run(prepared.run, task, clock))
        entries = arena.write(file, [item.tensor for item in outputs])
    except NoSpace:
        raise
    except Exception as error:
        return {**failure(platform, error, clock), "seconds": sum(clock.seconds.values())}
    return {
        "status": Status.OK.value,
        "stage": Stage.RUN.value,
        "digest": digest_of(outputs),
        "stable": stable,
        "note": prepared.note,
        "seconds": sum(clock.seconds.values()),
        "outputs": tuple((item.name, entry, item.stride) for item, entry in zip(outputs, entries)),
        "file": str(file),
    }


def one_run(run: Callable[[list[torch.Tensor]], list[NamedTensor]], task: Task, clock: StageClock) -> list[NamedTensor]:
    """Outputs for fresh copies of the inputs, with the seeds set."""
    tensors = task.inputs.copies()
    torch.default_generator.manual_seed(task.seed)  # platforms with another device seed it themselves
    with clock(Stage.RUN):
        return run(tensors)


def failure(platform: Platform, error: Exception, clock: StageClock) -> dict[str, Any]:
    """Status, stage and message of what a platform raised; the whole story goes to the log."""
    sys.stderr.write(traceback.format_exc())
    return {
        "status": platform.status_of(error, clock.current).value,
        "stage": clock.current.value,
        "message": str(error) if isinstance(error, MindgapError) else first_cause(error),
    }


def judge_question(question: Question, weights: Weights) -> list[dict[str, Any]]:
    """A verdict for each candidate, made where the outputs can be mapped: no tensor travels."""
    try:
        verdicts = _verdicts(question, weights)
    except Exception as error:  # one program must not end a campaign
        sys.stderr.write(traceback.format_exc())
        text = f"judging failed, which is a bug in mindgap: {first_cause(error)}"
        verdicts = [Verdict(trial.platform, Conclusion.UNJUDGED, text) for trial in question.candidates]
    return [verdict_message(verdict) for verdict in verdicts]


def _verdicts(question: Question, weights: Weights) -> list[Verdict]:
    from mindgap.verdicts.steps import BRIEF, Step, judge_in_steps
    from mindgap.verdicts.survey import Survey, Surveyor

    surveyor: Surveyor | None = None
    baseline = question.baseline.outcome()
    known = question.baseline.here and question.relation is None
    plain = {item.name: item.tensor for item in baseline.outputs} if known else None

    def survey_with(step: Step) -> Survey:
        nonlocal surveyor
        try:
            if surveyor is None:
                task = task_of(question.job, weights)
                assert task.program is not None
                surveyor = Surveyor((task.program, task.constants), task.inputs, task.seed, plain)
            return surveyor.survey(step.runs, not step.is_last, step.reference)
        except Exception as error:
            sys.stderr.write(traceback.format_exc())
            return Survey(problem=first_cause(error))

    candidates = [trial.outcome() for trial in question.candidates]
    if question.relation is not None:
        task_of_original = task_of(question.relation.original, weights)
        return judge_related(question, candidates[0], task_of_original, survey_with)
    return list(judge_in_steps([(baseline, candidates)], survey_with, BRIEF).values())

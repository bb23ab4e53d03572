"""Running many cases as one program on a platform, by its ordinary way: prepared once, run once, split afterwards."""

from __future__ import annotations

import sys
import traceback
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from mindgap.errors import MindgapError, NoSpace
from mindgap.execution import arena
from mindgap.execution.parcel import Constants, Parcel, open_parcel
from mindgap.execution.tasks import Worker, stream_task
from mindgap.platforms.base import Platform, StageClock
from mindgap.platforms.running import one_run
from mindgap.program.crowd import crowd_of
from mindgap.records.memory import collect_seldom
from mindgap.records.outcome import Outcome, Stage, Status


@dataclass(frozen=True, slots=True)
class RunCrowd:
    """Cases that run side by side, and the file that takes the outputs of each."""

    cases: tuple[Parcel, ...]
    files: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class CrowdRun:
    """What became of a crowd: an outcome per case, or the one failure of all."""

    outcomes: tuple[Outcome, ...] = ()
    failure: Outcome | None = None


@stream_task
def run_crowd(worker: Worker, request: RunCrowd) -> Iterator[CrowdRun]:
    """Prepare and run all cases in one program, and give each its own outputs."""
    collect_seldom()
    yield _run(worker, request)


def _run(worker: Worker, request: RunCrowd) -> CrowdRun:
    usual = worker.platform
    cheaper = type(usual)(replace(usual.spec, options={**usual.in_crowds, **usual.spec.options}))
    found = _run_on(cheaper, worker, request)
    if found.failure is not None and len(request.cases) == 1 and usual.in_crowds:
        return _run_on(usual, worker, request)  # a refusal is told as users meet it
    return found


def _run_on(platform: Platform, worker: Worker, request: RunCrowd) -> CrowdRun:
    clock = StageClock(worker.reach)
    try:
        constants = worker.keep(Constants)
        crowd = crowd_of([open_parcel(parcel, constants) for parcel in request.cases])
        prepared = platform.prepare(crowd.case, clock)
        outputs = one_run(prepared, crowd.case, clock)
        parts = crowd.split(outputs)
        stored = [arena.store(Path(file), part) for file, part in zip(request.files, parts)]
    except NoSpace:
        raise
    except Exception as error:
        sys.stderr.write(traceback.format_exc())
        message = str(error) if isinstance(error, MindgapError) else platform.message_of(error)
        status = platform.status_of(error, clock.current)
        return CrowdRun(failure=Outcome(platform.spec.name, status, clock.current, message, seconds=clock.seconds))
    seconds = {stage: spent / len(parts) for stage, spent in clock.seconds.items()}
    whole = Outcome(
        platform.spec.name,
        Status.OK,
        Stage.RUN,
        ran=prepared.ran,
        note=prepared.note,
        seconds=seconds,
        composed=prepared.composed,
    )
    return CrowdRun(
        tuple(
            replace(whole, digest=arena.digest_of(part), file=file, stored=tensors)
            for part, file, tensors in zip(parts, request.files, stored)
        )
    )

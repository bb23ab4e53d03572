"""Running many cases on a platform at the cost of few.

Side by side they are one program, by the platform's ordinary way: prepared once, run once, split afterwards. Apart,
each is prepared alone, after what they share was made once for all of them (`Platform.foresee`).
"""

from __future__ import annotations

import re
import sys
import traceback
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from mindgap.errors import MindgapError, NoSpace
from mindgap.execution import arena
from mindgap.execution.parcel import Constants, Parcel, open_parcel
from mindgap.execution.tasks import Worker, hosting, stream_task
from mindgap.platforms.base import Platform, StageClock
from mindgap.platforms.running import one_run
from mindgap.program.crowd import crowd_of
from mindgap.records.memory import collect_seldom
from mindgap.records.outcome import Outcome, Stage, Status


@dataclass(frozen=True, slots=True)
class RunCrowd:
    """Cases that run side by side or apart, and the file that takes the outputs of each."""

    cases: tuple[Parcel, ...]
    files: tuple[str, ...]
    apart: bool = False


@dataclass(frozen=True, slots=True)
class CrowdRun:
    """What became of a crowd: an outcome per case, or the one failure of all. Apart, there is one for each case."""

    outcomes: tuple[Outcome, ...] = ()
    failure: Outcome | None = None


@hosting(NoSpace)
@stream_task
def run_crowd(worker: Worker, request: RunCrowd) -> Iterator[CrowdRun]:
    """Prepare and run all cases in one program, and give each its own outputs; or one after the other."""
    collect_seldom()
    usual = worker.platform
    cheaper = type(usual)(replace(usual.spec, options={**usual.in_crowds, **usual.spec.options}))
    if not request.apart:
        yield _run(worker, cheaper, request)
        return
    constants = worker.keep(Constants)
    cheaper.foresee([open_parcel(parcel, constants) for parcel in request.cases])
    for parcel, file in zip(request.cases, request.files):
        yield _run(worker, cheaper, RunCrowd((parcel,), (file,)))


class _Refusals(set[tuple[Status, str]]):
    """Kinds of refusal that the platform's usual way has told as well."""


def _run(worker: Worker, cheaper: Platform, request: RunCrowd) -> CrowdRun:
    found = _run_on(cheaper, worker, request)
    usual: Platform = worker.platform
    if found.failure is None or len(request.cases) > 1 or not usual.in_crowds:
        return found
    kind = _kind_of(found.failure)
    known = worker.keep(_Refusals)
    if kind in known:
        return found
    told = _run_on(usual, worker, request)  # the first of each kind is told as users meet it
    if told.failure is not None and told.failure.status is found.failure.status:
        known.add(kind)
    return told


def _kind_of(failure: Outcome) -> tuple[Status, str]:
    """The same for all refusals whose messages differ only in names and numbers."""
    return failure.status, re.sub(r"(aten|prims)[.:]\S+|'[^']*'|\w*\(\w*\)|\w*[\d_]\w*", "#", failure.message)


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

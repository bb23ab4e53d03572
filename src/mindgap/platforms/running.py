"""Running cases on a platform: in a worker, and asked for by its parent."""

from __future__ import annotations

import contextlib
import re
import sys
import traceback
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

import torch

from mindgap.errors import FilesLost, MindgapError, NoSpace
from mindgap.execution import arena
from mindgap.execution.parcel import Constants, Parcel, make_parcel, open_parcel, with_state
from mindgap.execution.pool import Pool
from mindgap.execution.process import Death
from mindgap.execution.tasks import Worker, find, hosting, stream_task
from mindgap.platforms.base import FALLBACK, Platform, Prepared, StageClock, StageFailure, threads_of
from mindgap.platforms.messages import innermost, line_of
from mindgap.program.build import without_buffers
from mindgap.program.case import Case
from mindgap.program.interpret import raised_at
from mindgap.reading.limits import MESSAGE
from mindgap.records.memory import collect_seldom
from mindgap.records.outcome import AT, Outcome, Stage, Status, StoredTensor
from mindgap.records.platform import PlatformSpec
from mindgap.records.tensors import DTYPES, NamedTensor, same_outputs


@dataclass(frozen=True, slots=True)
class RunCases:
    """Cases to run, and the file that takes the outputs of each."""

    cases: tuple[Parcel, ...]
    files: tuple[str, ...]
    runs: int = 1
    """More than one also tells whether the platform agrees with itself."""
    program_only: bool = True
    """Whether the exported program runs even where the user's own code could."""
    options: Mapping[str, Any] = field(default_factory=dict)
    """For this request only, on top of the platform's own options."""
    cheaper: bool = False
    """Whether the platform's options for many programs (`in_crowds`) hold: what shows is confirmed without them."""


@hosting(NoSpace, FilesLost)
@stream_task
def run_cases(worker: Worker, request: RunCases) -> Iterator[Outcome]:
    """Reports each outcome as soon as it is ready, so that a death costs only the case that was running."""
    collect_seldom()
    shortcuts = worker.platform.in_crowds if request.cheaper else {}
    options = {**request.options, **shortcuts}
    refusals = worker.keep(Refusals)
    if shortcuts and len(request.cases) > 1:
        with _set_up(worker.platform, options) as platform:
            platform.foresee([open_parcel(parcel, worker.keep(Constants)) for parcel in request.cases])
    for parcel, file in zip(request.cases, request.files):
        found = run_case(worker, parcel, Path(file), request.runs, request.program_only, options)
        if shortcuts and not found.ok and not refusals.knows(found):
            told = run_case(worker, parcel, Path(file), request.runs, request.program_only, request.options)
            refusals.learn(found, told)
            found = told
        yield found


class Refusals:
    """Kinds of refusal that users meet as well: the first of each kind that a cheaper way gives is asked for again."""

    def __init__(self) -> None:
        self._known: set[tuple[Status, str]] = set()

    def knows(self, failure: Outcome) -> bool:
        return _kind_of(failure) in self._known

    def learn(self, cheaper: Outcome, usual: Outcome) -> None:
        """What the usual way says of a case that the cheaper one refused."""
        if usual.status is cheaper.status:
            self._known.add(_kind_of(cheaper))


def _kind_of(failure: Outcome) -> tuple[Status, str]:
    """The same for all refusals whose messages differ only in names and numbers."""
    return failure.status, re.sub(r"(aten|prims)[.:]\S+|'[^']*'|\w*\(\w*\)|\w*[\d_]\w*", "#", failure.message)


def run_case(
    worker: Worker, parcel: Parcel, file: Path, runs: int, program_only: bool, options: Mapping[str, Any] | None = None
) -> Outcome:
    """What this worker's platform does with one case; its outputs go to a file."""
    with _set_up(worker.platform, options or {}) as platform:
        return _outcome(worker, platform, parcel, file, runs, program_only)


@contextlib.contextmanager
def _set_up(platform: Platform, options: Mapping[str, Any]) -> Iterator[Platform]:
    """The platform with other options, in the same warm process; everything is restored afterwards."""
    if not options:
        yield platform
        return
    spec = replace(platform.spec, options={**platform.spec.options, **options})
    torch.set_num_threads(threads_of(spec))
    try:
        yield type(platform)(spec)
    finally:
        torch.set_num_threads(threads_of(platform.spec))


def _outcome(worker: Worker, platform: Platform, parcel: Parcel, file: Path, runs: int, program_only: bool) -> Outcome:
    clock = StageClock(worker.reach)
    try:
        case, fallback = _opened(platform, parcel, worker.keep(Constants), program_only, clock)
        prepared = worker.keep(_Ready).take(platform, parcel.structure) or _prepared(platform, case, clock)
        worker.keep(_Ready).put(platform, parcel.structure, prepared)
        refuse_fallback(platform, prepared)
        outputs = one_run(prepared, case, clock)
        refuse_fallback(platform, prepared, ran=True)
        stable = None
        for _ in range(runs - 1):
            stable = (stable is not False) and same_outputs(outputs, one_run(prepared, case, clock))
        stored = arena.store(file, outputs)
    except (NoSpace, FilesLost):
        raise
    except Exception as error:
        sys.stderr.write(traceback.format_exc())  # the whole story goes to the log
        message = str(error) if isinstance(error, MindgapError) else platform.message_of(error)
        return Outcome(
            platform.spec.name,
            platform.status_of(error, clock.current),
            clock.current,
            message,
            exception=type(innermost(error)).__name__ if not isinstance(error, StageFailure) else "",
            where=line_of(error),
            note=f"{AT}{operator}" if (operator := raised_at(error)) else "",
            seconds=clock.seconds,
            emulates=platform.spec.emulates,
            families=type(platform).families_of(platform.spec),
        )
    return Outcome(
        platform.spec.name,
        Status.OK,
        Stage.RUN,
        ran=prepared.ran,
        not_compared=tuple(prepared.not_compared),
        note="; ".join(filter(None, [fallback, prepared.note, elsewhere(prepared)])),
        fallback=prepared.fallback.share if prepared.fallback is not None else None,
        families=type(platform).families_of(platform.spec),
        stable=stable,
        seconds=clock.seconds,
        emulates=platform.spec.emulates,
        composed=prepared.composed,
        digest=arena.digest_of(outputs),
        file=str(file),
        stored=stored,
    )


class _Ready:
    """What was prepared last, for a case that differs from it in nothing but its inputs."""

    def __init__(self) -> None:
        self._held: tuple[PlatformSpec, str, Prepared] | None = None

    def take(self, platform: Platform, structure: str) -> Prepared | None:
        held, self._held = self._held, None  # a platform prepares the next with all its memory
        return held[2] if structure and held is not None and held[:2] == (platform.spec, structure) else None

    def put(self, platform: Platform, structure: str, prepared: Prepared) -> None:
        self._held = (platform.spec, structure, prepared) if structure else None


def _opened(
    platform: Platform, parcel: Parcel, constants: Constants, program_only: bool, clock: StageClock
) -> tuple[Case, str]:
    """The user's own code where this platform can run it, otherwise the program and why."""
    reason = ""
    case = open_parcel(parcel, constants)
    if case.file:
        return case, ""
    if platform.runs_source and case.source is not None and not program_only:
        with clock(Stage.LOAD):
            try:
                model = find(case.source.loader)(case.source)
                with_state(model, case.state, case.constants)
                return replace(case, model=model), ""
            except Exception as error:
                if case.program is None:
                    raise StageFailure(Status.UNSUPPORTED, _unreachable(case, platform.message_of(error))) from error
                reason = f"ran the program, because the source cannot be loaded here: {platform.message_of(error)}"
    with clock(Stage.EXPORT):
        if case.program is None:
            unreachable = platform.runs_source and case.source is None
            why = case.export_failure or "the model was not exported"
            raise StageFailure(Status.UNSUPPORTED, _unreachable(case, "it is local") if unreachable else why)
    return case, reason


def _unreachable(case: Case, why: str) -> str:
    """Why a model that torch could run never reaches a worker."""
    return (
        f"a worker can neither import it ({why}) nor run its export ({case.export_failure}): define it in a file, at "
        "the top level"
    )


def _prepared(platform: Platform, case: Case, clock: StageClock) -> Prepared:
    """The case on the platform; without the buffers that it changes where the platform cannot return them."""
    if case.file:
        with clock(Stage.CONVERT):
            return platform.prepare_file(case, clock)
    try:
        return platform.prepare(case, clock)
    except Exception:
        shorter, buffers = without_buffers(case.program) if case.program else (None, ())
        if case.model is not None or shorter is None or not buffers:
            raise
        prepared = platform.prepare(replace(case, program=shorter), clock)
        prepared.not_compared = tuple(f"{name} (not returned)" for name in buffers)
        return prepared


def refuse_fallback(platform: Platform, prepared: Prepared, ran: bool = False) -> None:
    """Where the user forbids it, a platform must run everything itself, and be able to tell at least once it ran."""
    if platform.spec.options.get(FALLBACK) != "forbid":
        return
    if elsewhere(prepared):
        raise StageFailure(Status.UNSUPPORTED, f"{elsewhere(prepared)}, which is forbidden")
    if ran and prepared.fallback is None:
        raise StageFailure(Status.UNSUPPORTED, "it cannot tell what ran elsewhere, and that is forbidden")


_NAMED: Final = 4
"""Operators that a sentence names."""


def elsewhere(prepared: Prepared, among: int = 1) -> str:
    """What quietly ran elsewhere, in words, `among` so many programs in one; empty when nothing did."""
    found = prepared.fallback
    if found is None or not found.share:
        return ""
    whose = "its operators" if among == 1 or found.share == 1 else f"the operators of its crowd of {among}"
    share = f"{found.share:.0%}" if found.share >= 0.005 else "less than 1%"
    more = f" and {len(found.names) - _NAMED} more" if len(found.names) > _NAMED else ""
    named = f" ({', '.join(found.names[:_NAMED])}{more})" if found.names else ""
    return f"{share} of {whose} ran on {found.to}{named}"


def one_run(prepared: Prepared, case: Case, clock: StageClock) -> list[NamedTensor]:
    """Outputs for fresh copies of the inputs, with the seeds set."""
    tensors = case.inputs.copies()
    torch.default_generator.manual_seed(case.seed)  # platforms with another device seed it themselves
    with clock(Stage.RUN):
        return prepared.run(tensors)


def run(
    pool: Pool,
    spec: PlatformSpec,
    parcel: Parcel,
    runs: int = 1,
    program_only: bool = True,
    on_stage: Callable[[Stage], None] | None = None,
    options: Mapping[str, Any] | None = None,
) -> Outcome:
    """What a platform does with one case, asked from the parent; the outputs lie in a file.

    `options` hold for this request only, on top of the platform's own.
    """
    file = pool.scratch.new_file("outputs", spec.worker_name)
    request = RunCases((parcel,), (str(file),), runs, program_only, options or {})
    try:
        found = pool.ask_one(spec, run_cases, request, on_stage)
    except FilesLost:
        if not parcel.file or Path(parcel.file).exists():
            return _disbelieved(spec, "it says that its files have gone, and they have not")
        raise
    if isinstance(found, Death):
        file.unlink(missing_ok=True)
        return replace(died(spec.name, found), emulates=spec.emulates)
    found = believed(found, spec, file)
    return replace(found, log_tail="" if found.ok else pool.log_tail(spec))


def run_here(
    pool: Pool, spec: PlatformSpec, case: Case, runs: int = 1, options: Mapping[str, Any] | None = None
) -> Outcome:
    """The same for a case in this process; its outputs are in memory."""
    path = pool.scratch.new_file("case")
    try:
        outcome = run(pool, spec, make_parcel(case, path), runs, options=options)
        return arena.discarded(arena.opened(outcome))
    finally:
        path.unlink(missing_ok=True)


def believed(outcome: Outcome, spec: PlatformSpec, file: Path) -> Outcome:
    """What a worker says, as long as it speaks of its own platform, its own file and possible tensors."""
    if outcome.platform != spec.name or outcome.file not in ("", str(file)) or outcome.outputs:
        return _disbelieved(spec, "its answer names a platform or a file that is not its own")
    spans = [_span(item) for item in outcome.stored]
    if None in spans or sum(filter(None, spans)) > spec.limits.memory_mb << 20:
        return _disbelieved(spec, "its answer describes tensors that cannot be")
    texts = (outcome.message, outcome.log_tail, outcome.exception, outcome.where, outcome.note, outcome.digest)
    if max(map(len, (*texts, *outcome.not_compared, *outcome.seconds))) > MESSAGE or len(outcome.seconds) > len(Stage):
        return _disbelieved(spec, "its answer is longer than any message")
    return outcome


def _disbelieved(spec: PlatformSpec, why: str) -> Outcome:
    return Outcome(spec.name, Status.CRASH, Stage.LOAD, why)


def _span(item: StoredTensor) -> int | None:
    """Bytes from the first to the last element; None where there is no such tensor."""
    meta = item.meta
    if (
        meta.dtype not in DTYPES
        or len(meta.shape) != len(meta.stride)
        or min(item.offset, *meta.shape, *meta.stride, 0) < 0
    ):
        return None
    last = sum((size - 1) * step for size, step in zip(meta.shape, meta.stride) if size)
    return max(meta.nbytes, (1 + last) * DTYPES[meta.dtype].itemsize)


def died(platform: str, death: Death) -> Outcome:
    """A worker's death as an outcome."""
    return Outcome(platform, death.status, death.stage, death.message, death.log_tail)

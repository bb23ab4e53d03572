"""All workers of one run of mindgap: started when first needed, replaced when they die, gone at the end."""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from types import TracebackType
from typing import Final, TypeVar

import msgspec

from mindgap import errors
from mindgap.errors import MindgapError, NoSpace
from mindgap.execution import isolation
from mindgap.execution.frames import Answer, Ask, Broken, BrokenAnswer, Refused
from mindgap.execution.process import LOG_TAIL_BYTES, Death, Reply, WorkerProcess
from mindgap.execution.scratch import Scratch
from mindgap.execution.tasks import Task
from mindgap.records.outcome import Stage, Status
from mindgap.records.platform import Limits, PlatformSpec

KILLED_TRIES: Final = 4
"""A worker that was killed from outside says nothing about what it did; so many in a row do."""
START_TRIES: Final = 20
"""A worker that was killed while it started did nothing yet that could be to blame."""
START_WAIT_S: Final = 0.5
"""Between two starts, at most: whoever kills may be about to stop."""
LONGEST_MESSAGE: Final = 2000
"""Characters of a message about which nothing is certain."""

Q = TypeVar("Q")
A = TypeVar("A")
T = TypeVar("T")
R = TypeVar("R")

HOST: Final = PlatformSpec(name="host", adapter="")
"""A worker of this interpreter that hosts no platform: it loads models, makes variants and judges."""


class WorkerDied(MindgapError):
    """A worker ended while it did something that only mindgap asked for."""

    def __init__(self, doing: str, death: Death) -> None:
        super().__init__(f"{doing}: {death.message}", cause=_last_lines(death.log_tail))
        self.death = death


class TaskFailed(RuntimeError):
    """A task raised something that is not a MindgapError: a bug, with the worker's traceback."""

    def __init__(self, broken: Broken) -> None:
        super().__init__(broken.traceback)
        self.message = broken.message


class Pool:
    """Workers by the name of their spec. Use it as a context manager; it can serve many requests.

    `import_paths` are for adapters of the user's own, `limits` for workers that host no platform. Isolated workers
    write nowhere but in their own directories and have no network.
    """

    def __init__(
        self,
        import_paths: Sequence[str] = (),
        limits: Limits = Limits(),  # noqa: B008 - frozen
        isolated: bool = False,
    ) -> None:
        if isolated:
            isolation.require()
        self.scratch = Scratch()
        self.on_pause: Callable[[NoSpace], None] | None = None
        """Waits while the disk is full, or raises; without it a full disk is raised."""
        self._import_paths = tuple(import_paths)
        self._limits = limits
        self._isolated = isolated
        self._workers: dict[str, WorkerProcess] = {}
        self._locks: dict[str, threading.Lock] = {}
        self._lock = threading.Lock()
        self.interrupted = False
        """Whether everything was ended: nobody should start anything anew."""

    def __enter__(self) -> Pool:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """End every worker and remove the scratch directory; threads that still ask are told that it is over."""
        with self._lock:
            self.interrupted = True
            workers = list(self._workers.values())
            self._workers.clear()
        for worker in workers:
            worker.interrupt()
        for worker in workers:
            worker.kill()
        self.scratch.remove()

    def interrupt(self, only: PlatformSpec | None = None) -> None:
        """End every process now, or one; the threads that wait for them are told that they died."""
        with self._lock:
            self.interrupted = self.interrupted or only is None
            workers = [w for name, w in self._workers.items() if only is None or name == only.worker_name]
        for worker in workers:
            worker.interrupt()

    def warm(self, spec: PlatformSpec) -> None:
        """Start a worker without waiting until it is ready."""
        with self._lock:
            self._worker(spec)

    def retire(self, spec: PlatformSpec) -> None:
        """End a worker that is not asked anything; the next request starts another."""
        with self._lock:
            found = self._workers.pop(spec.worker_name, None)
        if found is not None:
            found.kill()

    def ask(
        self,
        spec: PlatformSpec,
        task: Task[Q, A],
        request: Q,
        on_stage: Callable[[Stage], None] | None = None,
        on_item: Callable[[A], None] | None = None,
        count: int | None = None,
    ) -> A | Death:
        """The answer of a task, or how the worker died; raises what the task raised.

        A worker that was killed from outside is asked again, unless the task has many results: then the caller knows
        which of them are missing (`ask_one` where there is only one). Where `count` results were asked for, neither
        more nor fewer are believed.
        """
        while True:
            try:
                return self._answer(spec, task, request, on_stage, on_item, count)
            except NoSpace as error:
                if task.is_stream or self.on_pause is None or self.interrupted:
                    raise
                self.on_pause(error)

    def _answer(
        self,
        spec: PlatformSpec,
        task: Task[Q, A],
        request: Q,
        on_stage: Callable[[Stage], None] | None,
        on_item: Callable[[A], None] | None,
        count: int | None,
    ) -> A | Death:
        taken = 0

        def take(data: bytes) -> None:
            nonlocal taken
            taken += 1
            if not task.is_stream or (count is not None and taken > count):
                raise BrokenAnswer("more results than were asked for")
            item = _decoded(task, data)
            if on_item is not None:
                on_item(item)

        for _ in range(1 if task.is_stream else KILLED_TRIES):
            reply = self._exchange(spec, Ask(task.name, task.encode(request)), on_stage, take)
            if not (isinstance(reply, Death) and reply.outside) or self.interrupted:
                break
        if isinstance(reply, Death):
            full = None if self.interrupted else self.scratch.full()
            if full is not None:  # what it died of, most likely: nothing is known about the task
                raise full
            return reply if task.is_stream or self.interrupted else in_a_row(reply)
        if isinstance(reply, Refused | Broken):
            death = _raised(task, reply)
        elif task.is_stream and count is not None and taken < count:
            death = Death(Status.CRASH, f"half-written answer: {taken} of {count} results", Stage.LOAD, "")
        elif task.is_stream:
            return None  # type: ignore[return-value]
        else:
            try:
                return _decoded(task, reply.result)
            except BrokenAnswer as error:
                death = Death(Status.CRASH, f"half-written answer: {error}", Stage.LOAD, "")
        self.retire(spec)
        return death

    def ask_one(
        self, spec: PlatformSpec, task: Task[Q, A], request: Q, on_stage: Callable[[Stage], None] | None = None
    ) -> A | Death:
        """The only result of a task that may have many; a worker that was killed from outside is asked again."""
        found: list[A] = []
        for _ in range(KILLED_TRIES):
            death = self.ask(spec, task, request, on_stage, found.append, count=1)
            if found:
                return found[0]
            if not (isinstance(death, Death) and death.outside) or self.interrupted:
                break
        assert isinstance(death, Death)
        return death if self.interrupted else in_a_row(death)

    def demand(self, spec: PlatformSpec, task: Task[Q, A], request: Q, doing: str) -> A:
        """The answer of a task; raises when the worker dies of it."""
        answer = self.ask(spec, task, request)
        if isinstance(answer, Death):
            raise WorkerDied(doing, answer)
        return answer

    def resident_mb(self, spec: PlatformSpec) -> int:
        """Memory that a worker held when it last answered; 0 when there is none."""
        worker = self._workers.get(spec.worker_name)
        return 0 if worker is None or not worker.alive else worker.resident_mb

    def log_tail(self, spec: PlatformSpec) -> str:
        """What a worker printed since it was last asked."""
        worker = self._workers.get(spec.worker_name)
        return "" if worker is None else worker.log_tail()

    def _exchange(
        self,
        spec: PlatformSpec,
        request: Ask,
        on_stage: Callable[[Stage], None] | None,
        on_item: Callable[[bytes], None],
    ) -> Reply:
        with self._lock:
            lock = self._locks.setdefault(spec.worker_name, threading.Lock())
        with lock:
            ready = self._ready(spec)
            if isinstance(ready, Refused):  # it cannot become its platform, whatever it is asked
                raise _error_of(ready)
            if not isinstance(ready, WorkerProcess):
                return ready
            reply = ready.ask(request, on_stage, on_item)
            if isinstance(reply, Answer):
                ready.resident_mb = reply.resident_mb
            return reply

    def _ready(self, spec: PlatformSpec) -> WorkerProcess | Reply:
        """A worker that has started, or why there is none."""
        for turn in itertools.count(1):
            with self._lock:
                if self.interrupted:
                    return Death(Status.CRASH, "mindgap was stopped", Stage.LOAD, "", outside=True)
                worker = self._worker(spec)
            failure = worker.start()
            if failure is None:
                return worker
            killed = isinstance(failure, Death) and failure.outside
            if not killed or turn == START_TRIES or self.interrupted or self.scratch.full():
                return failure
            time.sleep(min(START_WAIT_S, 0.05 * turn))
        raise AssertionError

    def _worker(self, spec: PlatformSpec) -> WorkerProcess:
        worker = self._workers.get(spec.worker_name)
        if worker is None or not worker.alive:
            if not spec.adapter and spec.limits == Limits():
                spec = replace(spec, limits=self._limits)
            worker = WorkerProcess(spec, self.scratch, self._import_paths, self._isolated)
            self._workers[spec.worker_name] = worker
        return worker


def in_a_row(death: Death) -> Death:
    """The last death, told with those before it where workers were killed from outside again and again."""
    if not death.outside:
        return death
    return replace(death, message=f"{death.message}; {KILLED_TRIES} workers in a row ended like this")


def in_parallel(jobs: int, work: Callable[[T], R], items: Sequence[T]) -> list[R]:
    """Results in the order of the items; Ctrl-C does not wait for what is running."""
    executor = ThreadPoolExecutor(max_workers=max(1, jobs))
    try:
        return list(executor.map(work, items))
    finally:
        executor.shutdown(wait=False, cancel_futures=True)


def _raised(task: Task[Q, A], reply: Refused | Broken) -> Death:
    """What a task raised, raised here; a death where the code that it hosts may have said so."""
    if isinstance(reply, Refused):
        error = _error_of(reply)
        if isinstance(error, task.refusals):
            raise error
        what = f"{task.name} refused, which it never does: {_cut(error.what)}"
        return Death(Status.CRASH, what, Stage.LOAD, "")
    if not task.hosts:
        raise TaskFailed(reply)
    message = f"a bug in mindgap, unless the code that it ran forged this: {_cut(reply.message)}"
    return Death(Status.CRASH, message, Stage.LOAD, reply.traceback[-LOG_TAIL_BYTES:])


def _cut(text: str) -> str:
    return text if len(text) <= LONGEST_MESSAGE else f"{text[:LONGEST_MESSAGE]}..."


def _error_of(refused: Refused) -> MindgapError:
    """The error that a task raised, of the same type."""
    kind = getattr(errors, refused.kind, None)
    if not (isinstance(kind, type) and issubclass(kind, MindgapError)):
        kind = MindgapError
    return kind(refused.what, where=refused.where, cause=refused.cause, hint=refused.hint)


def _decoded(task: Task[Q, A], data: bytes) -> A:
    """What a worker answered; raises BrokenAnswer when it is not such an answer."""
    try:
        return task.decode_answer(data)
    except (msgspec.MsgspecError, ValueError, TypeError, RecursionError) as error:
        raise BrokenAnswer(f"it is not what {task.name} returns: {error}") from error


def _last_lines(log: str, count: int = 3) -> str | None:
    lines = [line for line in log.splitlines() if line.strip()]
    return " / ".join(lines[-count:]) or None

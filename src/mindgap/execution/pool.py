"""All workers of one run of mindgap: started when first needed, replaced when they die, gone at the end."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from types import TracebackType
from typing import Final, TypeVar

from mindgap import errors
from mindgap.errors import MindgapError
from mindgap.execution.frames import Answer, Ask, Broken, Refused
from mindgap.execution.process import Death, Reply, WorkerProcess
from mindgap.execution.scratch import Scratch
from mindgap.execution.tasks import Task
from mindgap.records.outcome import Stage
from mindgap.records.platform import PlatformSpec

KILLED_TRIES: Final = 4
"""A worker that was killed from outside says nothing about what it did; after so many in a row, memory ran out."""

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
    """Workers by the name of their spec. Use it as a context manager; it can serve many requests."""

    def __init__(self, import_paths: Sequence[str] = ()) -> None:
        self.scratch = Scratch()
        self._import_paths = list(import_paths)
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
        """End every worker and remove the scratch directory."""
        for worker in list(self._workers.values()):
            worker.kill()
        self._workers.clear()
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
    ) -> A | Death:
        """The answer of a task, or how the worker died; raises what the task raised.

        A worker that was killed from outside is asked again, unless the task has many results: then the caller knows
        which of them are missing.
        """

        def take(data: bytes) -> None:
            if on_item is not None:
                on_item(task.decode_answer(data))

        for _ in range(1 if task.is_stream else KILLED_TRIES):
            reply = self._exchange(spec, Ask(task.name, task.encode(request)), on_stage, take)
            if not (isinstance(reply, Death) and reply.outside) or self.interrupted:
                break
        if isinstance(reply, Death):
            return reply
        if isinstance(reply, Refused):
            raise _error_of(reply)
        if isinstance(reply, Broken):
            raise TaskFailed(reply)
        return None if task.is_stream else task.decode_answer(reply.result)  # type: ignore[return-value]

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
            with self._lock:
                worker = self._worker(spec)
            reply = worker.ask(request, on_stage, on_item)
            if isinstance(reply, Answer):
                worker.resident_mb = reply.resident_mb
            return reply

    def _worker(self, spec: PlatformSpec) -> WorkerProcess:
        worker = self._workers.get(spec.worker_name)
        if worker is None or not worker.alive:
            worker = self._workers[spec.worker_name] = WorkerProcess(spec, self.scratch, self._import_paths)
        return worker


def in_parallel(jobs: int, work: Callable[[T], R], items: Sequence[T]) -> list[R]:
    """Results in the order of the items; Ctrl-C does not wait for what is running."""
    executor = ThreadPoolExecutor(max_workers=max(1, jobs))
    try:
        return list(executor.map(work, items))
    finally:
        executor.shutdown(wait=False, cancel_futures=True)


def _error_of(refused: Refused) -> MindgapError:
    """The error that a task raised, of the same type."""
    kind = getattr(errors, refused.kind, MindgapError)
    error = kind(refused.what, where=refused.where, cause=refused.cause, hint=refused.hint)
    assert isinstance(error, MindgapError)
    return error


def _last_lines(log: str, count: int = 3) -> str | None:
    lines = [line for line in log.splitlines() if line.strip()]
    return " / ".join(lines[-count:]) or None

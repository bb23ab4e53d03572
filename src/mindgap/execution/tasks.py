"""What a worker can do: any function that a stage marks with `@task` or `@stream_task`.

    @stream_task
    def run_cases(worker: Worker, request: RunCases) -> Iterator[Outcome]: ...

The parent hands the marked function to `Pool.ask` or `Pool.stream`; only its name and its request travel. The worker
imports the module when it is first asked for, so each interpreter loads what it needs and nothing else. Requests and
results are typed: msgspec checks them against the annotations on both sides.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from importlib import import_module
from typing import Any, Generic, Protocol, TypeVar, get_args, get_origin, get_type_hints

import msgspec

from mindgap.errors import MindgapError
from mindgap.records.outcome import Stage

Q = TypeVar("Q")
A = TypeVar("A")
K = TypeVar("K")


class Worker(Protocol):
    """What a task may use of the process that runs it."""

    @property
    def platform(self) -> Any:
        """The adapter that this worker hosts; raises when it hosts none."""

    def keep(self, kind: Callable[[], K]) -> K:
        """One instance per process, made when first asked for: caches live here."""

    def reach(self, stage: Stage) -> None:
        """Tell the parent which stage begins."""


class Task(Generic[Q, A]):
    """A function that workers run; `A` is its answer, or one item of them when it is a generator."""

    def __init__(self, function: Callable[[Any, Any], Any]) -> None:
        self.__doc__ = function.__doc__
        self.name = f"{function.__module__}:{function.__qualname__}"
        self.function = function
        self.hosts = False
        """Whether somebody else's code runs in its process: then nothing that the process says is certain."""
        self.refusals: tuple[type[MindgapError], ...] = (MindgapError,)
        """Errors that it may raise; of a task that hosts code, any other is taken for a death."""

    @functools.cached_property
    def is_stream(self) -> bool:
        return get_origin(self._hints["return"]) is Iterator

    def encode(self, value: Any) -> bytes:
        return msgspec.msgpack.encode(value)

    def decode_request(self, data: bytes) -> Q:
        return self._request.decode(data)  # type: ignore[no-any-return]

    def decode_answer(self, data: bytes) -> A:
        return self._answer.decode(data)  # type: ignore[no-any-return]

    @functools.cached_property
    def _hints(self) -> dict[str, Any]:
        return get_type_hints(self.function)

    @functools.cached_property
    def _request(self) -> msgspec.msgpack.Decoder[Any]:
        return msgspec.msgpack.Decoder(next(iter(list(self._hints.values())[1:])))

    @functools.cached_property
    def _answer(self) -> msgspec.msgpack.Decoder[Any]:
        returned = self._hints["return"]
        return msgspec.msgpack.Decoder(get_args(returned)[0] if self.is_stream else returned)


def task(function: Callable[[Worker, Q], A]) -> Task[Q, A]:
    """Mark a function as one that workers can run."""
    return Task(function)


def stream_task(function: Callable[[Worker, Q], Iterator[A]]) -> Task[Q, A]:
    """The same for a generator: each of its items is sent when it is there."""
    return Task(function)


def hosting(*refusals: type[MindgapError]) -> Callable[[Task[Q, A]], Task[Q, A]]:
    """Mark a task in whose process somebody else's code runs: a model, an adapter, a runtime.

    Such code can write anything to the pipe. So a bug of mindgap there is told as a death, in words that call it one,
    and ends neither a check nor a campaign; and the task may raise only these errors.
    """

    def mark(task: Task[Q, A]) -> Task[Q, A]:
        task.hosts, task.refusals = True, refusals
        return task

    return mark


def find(name: str) -> Any:
    """What `module:attribute` names, imported now."""
    module, _, attribute = name.partition(":")
    found: Any = import_module(module)
    for part in attribute.split("."):
        found = getattr(found, part)
    return found

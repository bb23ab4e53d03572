"""Queues with workers behind them: each platform has its own, so that a slow one holds up only itself."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, Generic, TypeVar

T = TypeVar("T")

BATCH_S: Final = 0.4
"""Work that one request should hold: long enough to be cheap, short enough to stop soon."""
LARGEST_BATCH: Final = 32
SLOW_S: Final = 0.25
"""An item that takes longer does not take one of the slots of the fast platforms."""
TRIAL_S: Final = 2.0
"""Until then a first item may be slow only because everything is: loading, the first call of each kernel."""


@dataclass(frozen=True, slots=True)
class Gather:
    """For work that is cheaper together: wait for more before a batch begins."""

    most: int
    wait_s: float
    """At most; the first batches wait less, so that something is known soon."""
    batch_s: float
    """Work that one batch should hold at most."""


class WorkQueue(Generic[T]):
    """An inbox that one or more threads empty in batches, each with a worker of its own."""

    def __init__(
        self,
        name: str,
        works: Sequence[Callable[[list[T]], None]],
        slots: threading.Semaphore,
        stop: threading.Event,
        on_failure: Callable[[BaseException], None],
        gather: Gather | None = None,
    ) -> None:
        self.name = name
        self.pace_s = 0.0
        """Seconds for one item lately; 0 before the first."""
        self.done = 0
        self.batches = 0
        self.busy_s = 0.0
        self.hurried = False
        """Whether nothing more is to come: then no batch waits for more."""
        self._begun: float | None = None
        """When the first item was begun."""
        # Not a SimpleQueue: its get(timeout) waits for ever (CPython 3.11) where another thread takes the item just as
        # the time is over, and then a campaign does not end.
        self._inbox: queue.Queue[T] = queue.Queue()
        self._slots = slots
        self._stop = stop
        self._on_failure = on_failure
        self._gather = gather
        self._threads = [
            threading.Thread(target=self._serve, args=(work,), name=f"{name} {number}", daemon=True)
            for number, work in enumerate(works)
        ]

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def join(self) -> None:
        for thread in self._threads:
            thread.join()

    def put(self, item: T) -> None:
        self._inbox.put(item)

    @property
    def backlog(self) -> int:
        """Items that wait here."""
        return self._inbox.qsize()

    @property
    def open(self) -> int:
        """Items that wait here or are being worked on."""
        return self._inbox.unfinished_tasks

    @property
    def is_slow(self) -> bool:
        if self.pace_s:
            return self.pace_s > SLOW_S
        return self._begun is not None and time.perf_counter() - self._begun > TRIAL_S

    @property
    def is_on_trial(self) -> bool:
        """Whether nothing is known of its pace yet."""
        return not self.pace_s and not self.is_slow

    def _serve(self, work: Callable[[list[T]], None]) -> None:
        try:
            while not self._stop.is_set():
                batch = self._take()
                if batch:
                    self._run(work, batch)
        except BaseException as error:
            self._on_failure(error)

    def _run(self, work: Callable[[list[T]], None], batch: list[T]) -> None:
        # A compiler's first program, and a batch that takes many seconds, must not hold up the fast platforms.
        if self.is_slow or not self.pace_s or self._gather is not None:
            self._timed(work, batch)
            return
        with self._slots:
            self._timed(work, batch)

    def _timed(self, work: Callable[[list[T]], None], batch: list[T]) -> None:
        start = time.perf_counter()
        self._begun = self._begun or start
        work(batch)
        spent = time.perf_counter() - start
        self.busy_s += spent
        self.done += len(batch)
        for _ in batch:
            self._inbox.task_done()
        self.batches += 1
        pace = spent / len(batch)
        self.pace_s = pace if not self.pace_s else 0.7 * self.pace_s + 0.3 * pace

    def _take(self) -> list[T]:
        try:
            batch = [self._inbox.get(timeout=0.1)]
        except queue.Empty:
            return []
        if self._gather is not None:
            return self._gathered(batch, self._gather)
        fair = -(-self._inbox.qsize() // len(self._threads))
        wanted = 1 if not self.pace_s else int(BATCH_S / self.pace_s)
        for _ in range(min(fair, wanted, LARGEST_BATCH) - 1):
            try:
                batch.append(self._inbox.get_nowait())
            except queue.Empty:
                break
        return batch

    def _gathered(self, batch: list[T], gather: Gather) -> list[T]:
        wanted = int(gather.batch_s / self.pace_s) if self.pace_s else gather.most
        soon = 4.0 ** min(self.batches, 16)  # longer than anybody waits: a long campaign has thousands of batches
        deadline = time.monotonic() + min(gather.wait_s, soon)
        while len(batch) < min(wanted, gather.most) and not self._stop.is_set():
            left_s = 0.0 if self.hurried else deadline - time.monotonic()
            try:
                batch.append(self._inbox.get(timeout=max(0.01, min(0.1, left_s))))
            except queue.Empty:
                if left_s <= 0:
                    break
        return batch

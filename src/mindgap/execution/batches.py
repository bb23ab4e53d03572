"""Batches on workers that die: who is to blame is found out by trying again, alone, in a fresh worker."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Sequence
from typing import Final, Generic, TypeVar

from mindgap.errors import FilesLost, NoSpace
from mindgap.execution.pool import KILLED_TRIES, Pool, in_a_row
from mindgap.execution.process import Death
from mindgap.execution.tasks import Task
from mindgap.records.outcome import Stage, Status
from mindgap.records.platform import PlatformSpec

MEMORY_SHARE: Final = 0.5
"""A worker that holds more of its limit between two batches is replaced: something leaks."""

SPACE_WAIT_S: Final = 5.0

Q = TypeVar("Q")
A = TypeVar("A")

Accept = Callable[[int, A, bool], bool]
"""Takes an item's result; False asks for another try, alone, because the worker may be to blame: it is replaced. The
last argument says that it was alone."""


class _Doubtful(Exception):
    """Nothing that this worker says counts any more."""


class BatchWorker(Generic[Q, A]):
    """One worker, replaced whenever it dies, that works through batches of items."""

    def __init__(
        self,
        pool: Pool,
        spec: PlatformSpec,
        task: Task[Q, A],
        *,
        stopped: Callable[[], bool] = lambda: False,
        on_pause: Callable[[NoSpace], None],
        shares_files: bool = True,
        sure_of: Collection[Status] = (),
    ) -> None:
        self.spec = spec
        self._pool = pool
        self._task = task
        self._stopped = stopped
        self._on_pause = on_pause
        self._shares_files = shares_files
        """Whether its items lie in files that somebody may remove; otherwise it cannot lose any."""
        self._sure_of = sure_of
        """Ways to die that need no second look, alone and in a fresh process."""

    def work(
        self,
        count: int,
        request: Callable[[Sequence[int]], Q],
        accept: Accept[A],
        died: Callable[[int, Death], None],
        is_settled: Callable[[int], bool] = lambda number: False,
    ) -> None:
        """Every item is accepted or has died when this returns, unless the campaign was stopped.

        `is_settled` is asked of each that is left after a death or a doubt: what becomes of some is known without
        running them.
        """
        left = list(range(count))
        while left and not self._stopped():
            seen, trouble = self._batch(left, request, accept)
            left = left[seen:]
            if trouble is None:
                continue
            if left:
                guilty = left.pop(0)
                if isinstance(trouble, Death) and trouble.status in self._sure_of and not trouble.outside:
                    died(guilty, trouble)
                elif not is_settled(guilty):
                    self._alone(guilty, request, accept, died)
            left = [number for number in left if not is_settled(number)]

    def _batch(
        self, items: Sequence[int], request: Callable[[Sequence[int]], Q], accept: Accept[A]
    ) -> tuple[int, Death | _Doubtful | None]:
        """How many items are done, and what came between them and the next."""
        seen = 0

        def on_item(result: A) -> None:
            nonlocal seen
            if not accept(items[seen], result, False):
                raise _Doubtful  # an error ends the worker, so nobody else suffers for what it has become
            seen += 1

        try:
            answer = self._ask(request(items), on_item, len(items))
        except NoSpace as error:
            self._wait(error)
            return seen, None
        except _Doubtful as doubt:
            return seen, doubt
        return seen, answer if isinstance(answer, Death) else None

    def _alone(
        self,
        number: int,
        request: Callable[[Sequence[int]], Q],
        accept: Accept[A],
        died: Callable[[int, Death], None],
    ) -> None:
        answer = self.once(request([number]), fresh=True)
        if isinstance(answer, Death):
            died(number, in_a_row(answer))
        elif answer is not None:
            accept(number, answer, True)

    def once(self, request: Q, fresh: bool = False) -> A | Death | None:
        """The one answer to a request, or how the worker died of it; None when the campaign was stopped.

        A worker that somebody else killed is asked again. `fresh` begins with a new one.
        """
        tries = 0
        while not self._stopped():
            if fresh:
                self._pool.retire(self.spec)
            answered: list[A] = []
            try:
                answer = self._ask(request, answered.append, 1)
            except NoSpace as error:
                self._wait(error)
                continue
            if answered:
                return answered[0]
            assert isinstance(answer, Death)
            tries += 1
            if not answer.outside or tries == KILLED_TRIES:
                return answer
        return None

    def retire(self) -> None:
        """The next request starts with a new worker."""
        self._pool.retire(self.spec)

    def _ask(self, request: Q, on_item: Callable[[A], None], count: int) -> A | Death:
        try:
            answer = self._pool.ask(self.spec, self._task, request, on_item=on_item, count=count)
            if self._pool.resident_mb(self.spec) > MEMORY_SHARE * self.spec.limits.memory_mb:
                self.retire()
            return answer
        except FilesLost as error:
            if self._shares_files:
                raise
            return Death(Status.CRASH, f"it says what cannot be: {error.what}", Stage.LOAD, "")

    def _wait(self, error: NoSpace) -> None:
        self._on_pause(error)
        deadline = time.monotonic() + SPACE_WAIT_S
        while time.monotonic() < deadline and not self._stopped():
            time.sleep(0.1)

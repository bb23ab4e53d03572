"""Batches on workers that die: who is to blame is found out by trying again, alone, in a fresh worker."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from mindgap.errors import NoSpace
from mindgap.execution.pool import KILLED_TRIES, Pool
from mindgap.execution.process import Death
from mindgap.records.platform import PlatformSpec

MEMORY_SHARE: Final = 0.5
"""A worker that holds more of its limit between two batches is replaced: something leaks."""

SPACE_WAIT_S: Final = 5.0

Request = Callable[[Sequence[int]], Mapping[str, Any]]
"""The request for these items."""

Accept = Callable[[int, Any, bool], bool]
"""Takes an item's result; False asks for another try, alone. The last argument says that it was alone."""


class Careful:
    """One worker, replaced whenever it dies, that works through batches of items."""

    def __init__(
        self,
        pool: Pool,
        spec: PlatformSpec,
        *,
        stopped: Callable[[], bool] = lambda: False,
        on_pause: Callable[[str], None] = lambda reason: None,
    ) -> None:
        self.spec = spec
        self._pool = pool
        self._stopped = stopped
        self._on_pause = on_pause

    def work(self, count: int, request: Request, accept: Accept, died: Callable[[int, Death], None]) -> None:
        """Every item is accepted or has died when this returns, unless the campaign was stopped."""
        left = list(range(count))
        while left and not self._stopped():
            doubtful, seen, death = self._batch(left, request, accept)
            rest = left[seen:]
            if death is not None and rest:
                doubtful.append(rest.pop(0))
            for number in doubtful:
                self._alone(number, request, accept, died)
            left = rest

    def _batch(self, items: Sequence[int], request: Request, accept: Accept) -> tuple[list[int], int, Death | None]:
        doubtful: list[int] = []
        seen = 0

        def on_item(position: int, result: Any) -> None:
            nonlocal seen
            seen = position + 1
            if not accept(items[position], result, False):
                doubtful.append(items[position])

        try:
            answer = self._pool.batch(self.spec, request(items), on_item)
        except NoSpace as error:
            self._wait(error)
            return doubtful, seen, None
        if isinstance(answer, Death):
            return doubtful, seen, answer
        if answer > MEMORY_SHARE * self.spec.limits.memory_mb:
            self._pool.retire(self.spec)
        return doubtful, seen, None

    def _alone(self, number: int, request: Request, accept: Accept, died: Callable[[int, Death], None]) -> None:
        tries = 0
        while not self._stopped():
            self._pool.retire(self.spec)
            answered: list[tuple[int, Any]] = []
            try:
                answer = self._pool.batch(self.spec, request([number]), _into(answered))
            except NoSpace as error:
                self._wait(error)
                continue
            if answered:
                accept(number, answered[0][1], True)
                return
            assert isinstance(answer, Death)
            tries += 1
            if not answer.outside or tries == KILLED_TRIES:
                died(number, answer)
                return

    def _wait(self, error: NoSpace) -> None:
        self._on_pause(str(error))
        deadline = time.monotonic() + SPACE_WAIT_S
        while time.monotonic() < deadline and not self._stopped():
            time.sleep(0.1)


def _into(found: list[tuple[int, Any]]) -> Callable[[int, Any], None]:
    return lambda position, result: found.append((position, result))

"""How far work is, and how long it still takes: one model for everything that shows progress."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Final

LATELY_S: Final = 60.0
LATELY: Final = 24
"""A pace is that of the last minute, or of so many items if they took longer: items differ, and so does the load."""
GRAIN_S: Final = 0.5
"""Items that follow each other faster are noted together."""


@dataclass(frozen=True, slots=True)
class Lane:
    """Work that is done item by item at a pace of its own, beside other work."""

    total: int = 0
    """Known or expected now; never less than what is done."""
    done: int = 0
    """Earlier runs included."""
    guess_s: float | None = None
    """The pace to expect before one is measured."""
    marks: tuple[tuple[float, int], ...] = ()
    """The clock and what was done then: first when the work began, then lately."""

    @property
    def owed(self) -> int:
        return self.total - self.done

    def begun(self, now: float) -> Lane:
        """Work starts, or starts again after a pause that says nothing about its pace."""
        return replace(self, marks=((now, self.done),))

    def expecting(self, total: int) -> Lane:
        """With another total; what is done stays done."""
        return replace(self, total=max(total, self.done))

    def advanced(self, now: float, count: int = 1) -> Lane:
        """With more items done; one that nobody expected is one more of all."""
        done = self.done + count
        marks = self.marks or ((now, self.done),)
        if len(marks) > 2 and marks[-1][0] - marks[-2][0] < GRAIN_S:
            marks = marks[:-1]
        lately = (n for n, (at, was) in enumerate(marks) if now - at <= LATELY_S or done - was <= LATELY)
        first = min(next(lately, len(marks)), max(0, len(marks) - 2))
        return replace(self, done=done, total=max(self.total, done), marks=(*marks[first:], (now, done)))

    def pace_s(self, now: float) -> float | None:
        """Seconds of the clock for one item lately; None when nothing is known of it."""
        if len(self.marks) < 3:  # the first item also pays for what is started and loaded: it says little
            return self.guess_s
        (start, before), (last, after) = self.marks[1], self.marks[-1]
        if not self.owed:
            return (last - start) / (after - before)
        return max((last - start) / (after - before), (now - start) / (after - before + 1))

    def left_s(self, now: float) -> float | None:
        """Time until all is done at this pace; None when there is no pace yet."""
        if not self.owed:
            return 0.0
        pace = self.pace_s(now)
        if pace is None:
            return None
        since = now - self.marks[-1][0] if self.marks else 0.0
        return self.owed * pace - min(since, pace)

    def told(self, now: float) -> str:
        """`3 of 10, 40 s left`."""
        left = self.left_s(now)
        return f"{self.done} of {self.total}" + (f", {duration(left)} left" if left else "")


def together(times: Iterable[float | None]) -> float | None:
    """Time left for work that goes on at the same time: the slowest decides."""
    known = list(times)
    return None if None in known else max((time for time in known if time is not None), default=0.0)


def in_turn(times: Iterable[float | None]) -> float | None:
    """Time left for work that is done one after the other."""
    known = list(times)
    return None if None in known else sum(time for time in known if time is not None)


def duration(seconds: float) -> str:
    """A time as people say it: `40 s`, `12 min`, `3.5 h`."""
    if seconds < 100:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 6000 else f"{seconds / 3600:.1f} h"

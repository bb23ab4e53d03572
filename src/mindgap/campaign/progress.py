"""How far a campaign is: what is done and what is still owed in all its phases, and a snapshot that anybody may show.

A campaign runs its variants on all platforms at the same time, each at its own pace; then it looks at programs that
must agree with each other; then it explains what it found, within a budget. The time left is that of the slowest
platform plus that of the phases that follow.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Final

from mindgap.records.progress import Lane, in_turn, together

RUN, LATE, RELATIONS, EXPLAIN = "run", "late", "relations", "explain"
RELATED_RUNS: Final = 4
"""Of a variant whose relations are looked at, until that is measured: it runs itself, and three that must agree with
it."""
NOTHING: Final = Lane()


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A campaign at one moment."""

    phase: str
    """`start`, `run`, `late` (platforms that fell behind), `relations` or `explain`."""
    seconds: float
    finished: int
    """Variants that are judged on at least the fast platforms, earlier runs included."""
    total: int
    rate: float
    """Variants per second in this run."""
    left_s: float | None
    """Until the end of all phases; None while a platform has not finished two programs."""
    platforms: Mapping[str, Lane]
    """Variants that are judged on each platform."""
    conclusions: Mapping[str, int]
    """Verdicts of this run by conclusion."""
    judging: int = 0
    """Variants that wait for a verdict."""
    relations: Mapping[str, Lane] = field(default_factory=dict)
    """Variants that are held against programs that must agree with them, on each platform."""
    explanations: Lane = NOTHING
    traces: Lane = NOTHING
    paused: str = ""
    """Why nothing moves: the disk is full."""
    kinds: int = 0
    """Kinds of divergence and failure in this run; findings also tell operators apart."""
    explained: int = 0
    """Findings whose operator and cause are known."""


class Progress:
    """Counts what is done and owed; whoever does some of it says so, from any thread."""

    def __init__(
        self, variants: int, shares: Mapping[str, float], budget_s: float, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.phase = RUN
        self.finished = 0
        self._before = 0
        self._variants = variants
        self._shares = shares
        """The part of the variants that each platform runs."""
        self.budget_s = budget_s
        """For explanations and traces."""
        self.deadline: float | None = None
        """When everything ends, finished or not."""
        self._clock = clock
        self._lock = threading.Lock()
        self._lanes = {name: Lane() for name in shares}
        self._owed: dict[str, set[int]] = {name: set() for name in shares}
        """Variants that each platform is known to owe."""
        self._new: set[int] = set()
        """Variants that were seen and are not finished on any platform."""
        self._unseen = 0
        """Variants that were not made yet: what they owe is not known, only expected."""
        self._seen = 0
        self._related = self._related_before = 0
        """Variants whose relations are to be looked at: of this run, and left by earlier ones."""
        self._relations: dict[str, Lane] = {}
        self._costs: Mapping[str, float] = {}
        self._explanations = self._traces = Lane()

    def begin(self, done: Mapping[str, int], owed: Mapping[str, Collection[int]], known: int, related: int = 0) -> None:
        """What earlier runs did and left, with the number of variants that they made."""
        with self._lock:
            self._before = self.finished = known
            self._unseen = self._variants - known
            self._related_before = related
            for name in self._lanes:
                self._owed[name] = set(owed.get(name, ()))
                self._lanes[name] = Lane(done=done.get(name, 0)).begun(self._clock())
            self._expect()

    def saw(self, number: int, due: Collection[str], is_related: bool = False) -> None:
        """A variant was made that no earlier run had."""
        with self._lock:
            self._unseen -= 1
            self._seen += 1
            self._related += is_related
            self._new.add(number)
            for name in due:
                self._owed[name].add(number)
            self._expect()

    def saw_all(self) -> None:
        """No other variant will be made."""
        with self._lock:
            self._unseen = 0
            self._expect()

    def judged(self, number: int, platforms: Collection[str]) -> None:
        """Verdicts about a variant on these platforms; what was only run again is nothing new."""
        with self._lock:
            if number in self._new:
                self._new.remove(number)
                self.finished += 1
            for name in platforms:
                if number in self._owed.get(name, ()):
                    self._owed[name].remove(number)
                    self._lanes[name] = self._lanes[name].advanced(self._clock())
            self._expect()

    def costing(self, seconds: Mapping[str, float]) -> None:
        """What one program takes on each platform while it is worked on, without waiting for others."""
        with self._lock:
            self._costs = seconds

    def relating(self, platform: str, done: int, total: int) -> None:
        """Variants whose relations were looked at on a platform, of how many."""
        with self._lock:
            now = self._clock()
            lane = self._relations.get(platform) or Lane(guess_s=self._relation_s(platform)).begun(now)
            lane = lane.advanced(now, done - lane.done) if done > lane.done else lane
            self._relations[platform] = lane.expecting(total)

    def explaining(self, explanations: Lane, traces: Lane, budget_s: float) -> None:
        """Explanations and traces that are done and wanted, and the time that they may still take."""
        with self._lock:
            self._explanations, self._traces, self.budget_s = explanations, traces, budget_s

    def _expect(self) -> None:
        """What platforms owe, as far as it is known, and their part of what nobody has seen."""
        for name, lane in self._lanes.items():
            unseen = round(self._shares[name] * self._unseen)
            self._lanes[name] = lane.expecting(lane.done + len(self._owed[name]) + unseen)

    def _relation_s(self, platform: str) -> float:
        return RELATED_RUNS * self._costs.get(platform, 0.0)

    def _relations_to_come(self) -> dict[str, Lane]:
        """Before that phase begins: as often as variants were chosen for it so far."""
        if self._relations or self.phase == EXPLAIN:
            return self._relations
        share = self._related / self._seen if self._seen else 0.0
        expected = self._related_before + self._related + share * self._unseen
        return {
            name: Lane(round(part * expected), guess_s=self._relation_s(name)) for name, part in self._shares.items()
        }

    def left_s(self, now: float) -> float | None:
        """Time until the end of all phases."""
        variants = together(lane.left_s(now) for lane in self._lanes.values())
        relations = together(lane.left_s(now) for lane in self._relations_to_come().values())
        explaining = in_turn((self._explanations.left_s(now), self._traces.left_s(now)))
        left = in_turn((variants, relations, None if explaining is None else min(explaining, self.budget_s)))
        if self.deadline is None:
            return left
        most = max(self.deadline - now, 0.0)
        return most if left is None else min(left, most)

    def snapshot(
        self, seconds: float, conclusions: Mapping[str, int], judging: int, paused: str, kinds: int, explained: int
    ) -> Snapshot:
        with self._lock:
            now = self._clock()
            return Snapshot(
                phase=self.phase,
                seconds=seconds,
                finished=self.finished,
                total=max(self._variants, self.finished),
                rate=(self.finished - self._before) / seconds if seconds else 0.0,
                left_s=self.left_s(now),
                platforms=dict(self._lanes),
                conclusions=dict(conclusions),
                judging=judging,
                relations=dict(self._relations),
                explanations=self._explanations,
                traces=self._traces,
                paused=paused,
                kinds=kinds,
                explained=explained,
            )

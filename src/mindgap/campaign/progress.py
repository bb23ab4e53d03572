"""How far a campaign is: a snapshot that anybody may show."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class PlatformProgress:
    """One platform."""

    done: int
    waiting: int
    pace_s: float
    """Seconds for one program lately."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A campaign at one moment."""

    phase: str
    """`run`, `late` (platforms that fell behind) or `triage`."""
    seconds: float
    finished: int
    """Variants that are judged, earlier stretches included."""
    total: int
    rate: float
    """Variants a second in this stretch."""
    conclusions: Mapping[str, int]
    """Verdicts of this stretch by conclusion."""
    platforms: Mapping[str, PlatformProgress]
    judging: int
    """Variants that wait for a verdict."""
    paused: str = ""
    """Why nothing moves: the disk is full."""
    kinds: int = 0
    """Kinds of divergence and failure in this stretch; findings, which also tell operators apart, come at the end."""
    noted: tuple[int, int] = (0, 0)
    """After the run: variants whose relations, or divergences whose operators, were looked at, of how many."""

    @property
    def left_s(self) -> float | None:
        """Time left at this rate."""
        return (self.total - self.finished) / self.rate if self.rate > 0 else None

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
    """`run`, `late` (platforms that fell behind), `relations` or `explain`."""
    seconds: float
    finished: int
    """Variants that are judged, earlier runs included."""
    total: int
    rate: float
    """Variants per second in this run."""
    conclusions: Mapping[str, int]
    """Verdicts of this run by conclusion."""
    platforms: Mapping[str, PlatformProgress]
    judging: int
    """Variants that wait for a verdict."""
    paused: str = ""
    """Why nothing moves: the disk is full."""
    kinds: int = 0
    """Kinds of divergence and failure in this run; findings also tell operators apart."""
    explained: int = 0
    """Findings whose operator and cause are known."""
    noted: tuple[int, int] = (0, 0)
    """After the variants: relations that were looked at, or findings that were explained, of how many."""

    @property
    def left_s(self) -> float | None:
        """Time left at this rate."""
        return (self.total - self.finished) / self.rate if self.rate > 0 else None

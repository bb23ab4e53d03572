"""What one output of one platform shows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from mindgap.records.verdict import Blame, Conclusion, Kind, WrongElement


@dataclass(frozen=True, slots=True)
class Comparison:
    """One output compared: the conclusion and the evidence for it."""

    output: str
    conclusion: Conclusion
    kind: Kind | None = None
    blame: Blame | None = None
    ratio: float | None = None
    """The number that decides, in noise floors: the largest of the elements that are beyond rounding, or of all where
    none is. It is the candidate's error against the reference; against eager where there is no reference, or where
    both are far from it and near each other."""
    eager_ratio: float | None = None
    """The same for eager; None without a reference."""
    far: float | None = None
    """How far candidate or eager is from float64 where only being near each other makes it rounding."""
    worst: tuple[int, ...] | None = None
    """Where it is worst."""
    candidate_value: str = ""
    eager_value: str = ""
    right_value: str = ""
    """What float64 says there."""
    wrong: int = 0
    """How many elements are beyond rounding."""
    explained: int = 0
    """How many elements the rule explains."""
    differing: int = 0
    total: int = 0
    rule: str | None = None
    why: str = ""
    """What keeps it from being judged, or what else a reader should know."""
    fingerprint: str = ""
    """The same for platforms that are wrong in the same way."""
    elements: tuple[WrongElement, ...] = ()
    """The worst of those beyond rounding, the worst first."""

    @property
    def location(self) -> str:
        """`logits[0, 412]`."""
        return f"{self.output}[{', '.join(map(str, self.worst))}]" if self.worst else self.output


SEVERITY = (Conclusion.DIVERGES, Conclusion.HAZARD, Conclusion.UNJUDGED, Conclusion.ROUNDING, Conclusion.AGREES)
"""From what a reader must know to what needs no word."""


def gravest(comparisons: Sequence[Comparison]) -> Comparison:
    """The comparison that speaks for all outputs: the gravest conclusion, and of those the largest error."""
    return min(comparisons, key=lambda c: (SEVERITY.index(c.conclusion), -(c.ratio or 0.0)))

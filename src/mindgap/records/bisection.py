"""Which version of a runtime brought a difference in, or took it away."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from mindgap.records.verdict import Conclusion, Verdict


@dataclass(frozen=True, slots=True)
class TriedVersion:
    """What one version did."""

    version: str
    verdict: Verdict | None
    """None where it could not be installed or started."""
    problem: str = ""

    @property
    def is_wrong(self) -> bool | None:
        """Whether it shows a difference; None where it says nothing."""
        if self.verdict is None or self.verdict.conclusion in (Conclusion.FAILED, Conclusion.UNJUDGED):
            return None
        return self.verdict.conclusion in (Conclusion.DIVERGES, Conclusion.UNSTABLE)

    @property
    def told(self) -> str:
        """In a word."""
        return self.verdict.conclusion.value if self.verdict is not None else "not tried"


@dataclass(frozen=True, slots=True)
class Bisection:
    """The versions that were tried, and between which two it changed."""

    model: str
    platform: str
    package: str
    tried: tuple[TriedVersion, ...]
    """From the oldest to the newest."""
    of: int
    """How many versions there were to try."""
    last_before: str = ""
    first_after: str = ""
    """Neighbours among the versions that could be tried; empty where all do the same."""
    appeared: bool = False
    """Whether the newer one is wrong; otherwise it is the one that is right again."""
    between: tuple[str, ...] = ()
    """Versions between the two that say nothing."""
    versions: Mapping[str, str] = field(default_factory=dict)
    seconds: float = 0.0
    baseline: str = "eager"
    """What each version is judged against."""

    @property
    def known(self) -> list[TriedVersion]:
        """The versions that say something; fewer than two answer nothing."""
        return [item for item in self.tried if item.is_wrong is not None]

    @property
    def sentence(self) -> str:
        """The answer."""
        known = self.known
        if not known:
            return f"no version of {self.package} ran it"
        if len(known) == 1:
            what = f"{'differs from' if known[0].is_wrong else 'agrees with'} {self.baseline}"
            return f"only {self.package} {known[0].version} ran it, and {what}: there is nothing to compare it with"
        if not self.first_after:
            what = f"{'differ from' if known[-1].is_wrong else 'agree with'} {self.baseline}"
            return f"all {len(known)} versions of {self.package} that were tried {what}"
        verb = "appeared" if self.appeared else "vanished"
        open_ = f"; {', '.join(self.between)} in between did not run it" if self.between else ""
        return f"it {verb} between {self.package} {self.last_before} and {self.first_after}{open_}"

"""From single verdicts to findings: evidence of one cause becomes one finding with its smallest witness."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from mindgap.campaign.messages import message_class, operator_in
from mindgap.campaign.plan import BASELINE
from mindgap.execution.batch import Trial
from mindgap.records.verdict import Blame, Conclusion, Kind, Verdict

UNKNOWN: Final = "unknown operator"


@dataclass(frozen=True, slots=True)
class Evidence:
    """One verdict that somebody should look at."""

    program: int
    name: str
    nodes: int
    base: str
    platform: str
    conclusion: Conclusion
    status: str
    stage: str
    message: str
    message_class: str
    kind: str | None = None
    blame: str | None = None
    fault: str | None = None
    """The same for platforms that are wrong in the same way."""
    suspect: str | None = None
    error_over_bound: float | None = None
    sentence: str = ""
    oracle: str = ""
    """The relation that a platform broke by itself; empty when it was compared with eager."""


@dataclass(frozen=True, slots=True)
class Finding:
    """A root cause, as far as it can be told from outside."""

    category: str
    """`divergence`, `unstable`, `metamorphic` (it contradicts itself) or `failure`."""
    platforms: tuple[str, ...]
    """Who is wrong; the baseline itself where it is farther from float64."""
    kind: str
    """What differs; for a failure what happened (`crash`, `unsupported`, ...)."""
    blame: str | None
    suspect: str
    stage: str
    message: str
    witness: Evidence
    """The smallest."""
    evidence: tuple[Evidence, ...]
    id: str = ""
    known: str = ""
    """The id under which known.toml lists it."""

    @property
    def signature(self) -> str:
        parts = (self.category, "+".join(self.platforms), self.kind, self.blame or "", self.suspect, self.stage)
        return " | ".join((*parts, self.message))

    @property
    def variants(self) -> int:
        return len({item.program for item in self.evidence})

    @property
    def bases(self) -> int:
        return len({item.base for item in self.evidence})

    @property
    def error_over_bound(self) -> float | None:
        errors = [item.error_over_bound for item in self.evidence if item.error_over_bound is not None]
        return max(errors, default=None)


Key = tuple[str, str, str, str, str, str]


def rough_key(verdict: Verdict, trial: Trial) -> tuple[str, ...] | None:
    """What a finding can be told by as soon as its verdict is there; None for what is none.

    Findings of one rough key may still be apart by operator, which is looked for at the end.
    """
    if verdict.conclusion not in (Conclusion.DIVERGES, Conclusion.FAILED, Conclusion.UNSTABLE):
        return None
    kind = verdict.kind.value if verdict.kind else trial.status.value
    said = message_class(trial.message) if not trial.ok else ""
    return (verdict.platform, verdict.conclusion.value, kind, verdict.blame.value if verdict.blame else "", said)


def group(evidence: Iterable[Evidence]) -> list[Finding]:
    """Findings, those to look at first first; the same for the same evidence in any order."""
    by_key: dict[Key, list[Evidence]] = {}
    for item in evidence:
        by_key.setdefault(_key(item), []).append(item)
    found = [_finding(key, part) for key, items in by_key.items() for part in _by_fault(items)]
    return sorted(found, key=_rank)


def _key(item: Evidence) -> Key:
    if item.conclusion is Conclusion.FAILED:
        suspect = operator_in(item.message) or item.suspect or ""
        return ("failure", item.status, "", suspect, item.stage, item.message_class)
    if item.oracle:
        return ("metamorphic", item.oracle, "", "", item.stage, "")
    category = "unstable" if item.conclusion is Conclusion.UNSTABLE else "divergence"
    said = item.message_class if item.kind == Kind.VALIDATION.value else ""
    suspect = item.suspect or (operator_in(item.message) if said else None) or UNKNOWN
    return (category, item.kind or "value", item.blame or "", suspect, item.stage, said)


def _by_fault(items: Sequence[Evidence]) -> list[list[Evidence]]:
    """Evidence of platforms that share a fault in some program stays together; others are apart."""
    if all(item.blame == Blame.EAGER.value for item in items):
        return [list(items)]
    leader = {item.platform: item.platform for item in items}

    def lead(name: str) -> str:
        while leader[name] != name:
            name = leader[name]
        return name

    sharing: dict[tuple[int, str], str] = {}
    for item in items:
        if item.fault is not None:
            other = sharing.setdefault((item.program, item.fault), item.platform)
            first, second = sorted((lead(other), lead(item.platform)))
            leader[second] = first
    parts: dict[str, list[Evidence]] = {}
    for item in items:
        parts.setdefault(lead(item.platform), []).append(item)
    return list(parts.values())


def _finding(key: Key, items: Sequence[Evidence]) -> Finding:
    category, kind, blame, suspect, stage, message = key
    platforms = (BASELINE,) if blame == Blame.EAGER.value else tuple(sorted({item.platform for item in items}))
    ordered = tuple(sorted(items, key=lambda item: (item.nodes, item.program, item.platform)))
    return Finding(category, platforms, kind, blame or None, suspect, stage, message, ordered[0], ordered)


_CATEGORIES: Final = ("divergence", "metamorphic", "unstable", "failure")
_FAILURES: Final = ("crash", "timeout", "oom", "error", "rejected", "unsupported")
"""From what a platform must never do to what it says that it cannot do."""


def _rank(finding: Finding) -> tuple[int, int, int, int, str]:
    severity = _FAILURES.index(finding.kind) if finding.category == "failure" else 0
    return (
        _CATEGORIES.index(finding.category),
        severity,
        -finding.bases,
        -finding.variants,
        finding.signature,
    )


def numbered(findings: Sequence[Finding], before: Mapping[str, str]) -> list[tuple[str, Finding]]:
    """Each finding with its id; `before` holds the ids that were given out, by signature, and stay."""
    used = {int(identity.removeprefix("F-")) for identity in before.values()}
    following = max(used, default=0) + 1
    found = []
    for finding in findings:
        identity = before.get(finding.signature)
        if identity is None:
            identity = f"F-{following:02d}"
            following += 1
        found.append((identity, finding))
    return found

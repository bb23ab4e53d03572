"""From single verdicts to findings: evidence of one root cause becomes one finding. Pure functions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from mindgap.campaign.known import Known, recognise
from mindgap.campaign.messages import message_class, operator_in
from mindgap.campaign.plan import BASELINE
from mindgap.records.check import DEFECTS, CheckResult, PlatformResult
from mindgap.records.explanation import Explanation
from mindgap.records.finding import Evidence, Finding
from mindgap.records.outcome import Outcome
from mindgap.records.verdict import Blame, Conclusion, Kind, Verdict

Key = tuple[str, str, str, str, str, str]
Place = tuple[int, str]
"""A program on a platform."""


@dataclass(frozen=True, slots=True)
class Explained:
    """An explanation and the folder of its script."""

    explanation: Explanation
    folder: str


def rough_key(verdict: Verdict, outcome: Outcome, operator: str = "") -> tuple[str, ...] | None:
    """What a finding can be told by as soon as its verdict is there; None for what is none.

    Findings of one rough key may still be apart by operator, which tracing finds where a fragment does not tell it.
    """
    if verdict.conclusion not in DEFECTS:
        return None
    kind = verdict.kind.value if verdict.kind else outcome.status.value
    said = message_class(outcome.message) if not outcome.ok else ""
    blame = verdict.blame.value if verdict.blame else ""
    return (verdict.platform, verdict.conclusion.value, kind, blame, said, operator)


def group(
    evidence: Iterable[Evidence],
    explained: Mapping[Place, Explained] | None = None,
    ids: Mapping[str, str] | None = None,
    known: Sequence[Known] = (),
) -> list[Finding]:
    """Findings, those to look at first first; the same for the same evidence in any order.

    Groups that look different (another kind of wrong value) but have one explained root cause become one finding.
    """
    by_key: dict[Key, list[Evidence]] = {}
    for item in evidence:
        by_key.setdefault(_key(item), []).append(item)
    parts = [_finding(key, part) for key, items in by_key.items() for part in _by_fault(items)]
    told = [_with_explanation(part, explained or {}) for part in sorted(parts, key=_rank)]
    return [_identified(item, ids or {}, known) for item in sorted(_merged(told, ids or {}), key=_rank)]


def _key(item: Evidence) -> Key:
    if item.conclusion is Conclusion.FAILED:
        return ("failure", item.status, "", item.operator or operator_in(item.message) or "", item.stage,
                item.message_class)  # fmt: skip
    if item.oracle:
        return ("metamorphic", item.oracle, "", "", item.stage, "")
    category = "unstable" if item.conclusion is Conclusion.UNSTABLE else "divergence"
    said = item.message_class if item.kind == Kind.VALIDATION.value else ""
    operator = item.operator or (operator_in(item.message) if said else None) or ""
    return (category, item.kind or "value", item.blame or "", operator, item.stage, said)


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
    category, kind, blame, operator, stage, message = key
    platforms = (BASELINE,) if blame == Blame.EAGER.value else tuple(sorted({item.platform for item in items}))
    return Finding(category, platforms, kind, blame or None, operator, stage, message, _ordered(items))


def _ordered(items: Iterable[Evidence]) -> tuple[Evidence, ...]:
    return tuple(sorted(items, key=lambda item: (item.nodes, item.program, item.platform)))


def _with_explanation(finding: Finding, explained: Mapping[Place, Explained]) -> Finding:
    """The explanation of its smallest program that has one."""
    for item in finding.evidence:
        found = explained.get((item.program, item.platform))
        if found is not None:
            return replace(finding, explanation=found.explanation, folder=found.folder)
    return finding


def _merged(findings: Sequence[Finding], ids: Mapping[str, str]) -> list[Finding]:
    """Findings of one root cause as one: same side to blame, operator, cause and layer."""
    roots: dict[tuple[object, ...], Finding] = {}
    merged: list[Finding] = []
    for finding in findings:
        found = finding.explanation
        if found is None or finding.category != "divergence":
            merged.append(finding)
            continue
        layer = found.layer.name if found.layer else ""
        root = (finding.platforms, finding.blame, found.operator, found.cause.kind, found.cause.remark, layer)
        before = roots.get(root)
        if before is None:
            roots[root] = finding
        else:
            first, second = sorted((before, finding), key=lambda item: _number(ids.get(item.signature)))
            roots[root] = replace(first, evidence=_ordered((*first.evidence, *second.evidence)))
    return merged + list(roots.values())


def _number(identity: str | None) -> float:
    """For ordering ids: those that were given out first come first."""
    return float(identity.removeprefix("F-")) if identity else float("inf")


def _identified(finding: Finding, ids: Mapping[str, str], known: Sequence[Known]) -> Finding:
    entry = recognise(finding.signature, known)
    return replace(finding, id=ids.get(finding.signature, ""), known=str(entry) if entry else "")


def new_ids(findings: Sequence[Finding], before: Mapping[str, str]) -> dict[str, str]:
    """Ids for those findings that have none; `before` holds the ids that were given out, which stay."""
    used = [int(identity.removeprefix("F-")) for identity in before.values()]
    following = max(used, default=0) + 1
    nameless = [finding.signature for finding in findings if finding.signature not in before]
    return {signature: f"F-{following + number:02d}" for number, signature in enumerate(nameless)}


def with_known(result: CheckResult, known: Sequence[Known]) -> CheckResult:
    """A check whose platforms say which entry of known.toml lists what they do.

    A platform has the signature that a finding of a campaign would have, followed by the name of the model.
    """

    def marked(name: str, item: PlatformResult) -> PlatformResult:
        if item.verdict.conclusion not in (*DEFECTS, Conclusion.HAZARD):
            return item
        entry = recognise(f"{_signature(result, name, item)} | {result.model}", known)
        return replace(item, known=str(entry)) if entry else item

    return replace(result, platforms={name: marked(name, item) for name, item in result.platforms.items()})


def _signature(result: CheckResult, platform: str, item: PlatformResult) -> str:
    outcome, verdict = item.outcome, item.verdict
    (finding,) = group([
        Evidence(
            program=0, name=result.model, nodes=result.nodes or 0, base=result.model, platform=platform,
            conclusion=verdict.conclusion, status=outcome.status.value, stage=outcome.stage.value,
            message=outcome.message, message_class=message_class(outcome.message),
            kind=verdict.kind.value if verdict.kind else None, blame=verdict.blame.value if verdict.blame else None,
        )
    ])  # fmt: skip
    if verdict.conclusion is Conclusion.HAZARD:
        finding = replace(finding, category="hazard", kind=verdict.rule or finding.kind)
    return finding.signature


_CATEGORIES: Final = ("divergence", "metamorphic", "unstable", "failure")
_FAILURES: Final = ("crash", "timeout", "oom", "error", "rejected", "unsupported")
"""From what a platform must never do to what it says that it cannot do."""


def _rank(finding: Finding) -> tuple[int, int, int, int, str]:
    severity = _FAILURES.index(finding.kind) if finding.category == "failure" and finding.kind in _FAILURES else 0
    return (
        _CATEGORIES.index(finding.category),
        severity,
        -finding.bases,
        -finding.variants - finding.fragments,
        finding.signature,
    )

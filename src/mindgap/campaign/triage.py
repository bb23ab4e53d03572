"""From single verdicts to findings: evidence of one root cause becomes one finding. Pure functions."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from mindgap.campaign.known import Known, recognise
from mindgap.campaign.messages import message_class, operator_in
from mindgap.campaign.plan import BASELINE
from mindgap.records.check import DEFECTS, CheckResult, PlatformResult
from mindgap.records.explanation import Explanation
from mindgap.records.finding import Evidence, Finding, Ids
from mindgap.records.outcome import Outcome
from mindgap.records.verdict import Blame, Conclusion, Kind, Verdict

Key = tuple[str, str, str, str, str, str]


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
    explained: Mapping[tuple[int, str], Explained] | None = None,
    ids: Ids | None = None,
    known: Sequence[Known] = (),
) -> list[Finding]:
    """Findings, those to look at first first; the same for the same evidence in any order.

    Explanations are by program and platform. Groups that look different (another kind of wrong value) but have one
    explained root cause become one finding.
    """
    by_key: dict[Key, list[Evidence]] = {}
    for item in evidence:
        by_key.setdefault(_key(item), []).append(item)
    parts = [_finding(key, part) for key, items in by_key.items() for part in _by_fault(items)]
    told = [_with_explanation(part, explained or {}) for part in sorted(parts, key=_rank)]
    merged = sorted(_merged(_identified(told, ids or Ids())), key=_rank)
    entries = [recognise(finding.signature, known) for finding in merged]
    return [replace(finding, known=str(entry) if entry else "") for finding, entry in zip(merged, entries)]


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


def _with_explanation(finding: Finding, explained: Mapping[tuple[int, str], Explained]) -> Finding:
    """The explanation of its smallest program that has one."""
    for item in finding.evidence:
        found = explained.get((item.program, item.platform))
        if found is not None:
            return replace(finding, explanation=found.explanation, folder=found.folder)
    return finding


def _merged(findings: Sequence[Finding]) -> list[Finding]:
    """Findings of one root cause as one, with the oldest of their ids: same side to blame, operator, cause, layer."""
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
            oldest = min(before.id, finding.id, key=_number)
            roots[root] = replace(before, id=oldest, evidence=_ordered((*before.evidence, *finding.evidence)))
    return merged + list(roots.values())


def _number(identity: str) -> float:
    """For ordering ids: those that were given out first come first."""
    return float(identity.removeprefix("F-")) if identity else float("inf")


def _identified(findings: Sequence[Finding], ids: Ids) -> list[Finding]:
    """With their ids: of the evidence that an id was given out for, otherwise of the signature."""
    holders = {item.place: index for index, finding in enumerate(findings) for item in finding.evidence}
    given: dict[int, str] = {}
    for identity in sorted(ids.places, key=_number):
        if (index := holders.get(ids.places[identity])) is not None:
            given.setdefault(index, identity)
    taken = set(given.values())
    for index, finding in enumerate(findings):
        identity = ids.by_signature.get(finding.signature, "")
        if index not in given and identity not in taken:
            given[index] = identity
            taken |= {identity} - {""}
    return [replace(finding, id=given.get(index, "")) for index, finding in enumerate(findings)]


def with_new_ids(findings: Sequence[Finding], ids: Ids) -> Ids:
    """With an id for those findings that have none; those that were given out stay."""
    used = [int(identity.removeprefix("F-")) for identity in (*ids.by_signature.values(), *ids.places)]
    following = itertools.count(max(used, default=0) + 1)
    named = [replace(finding, id=finding.id or f"F-{next(following):02d}") for finding in findings]
    signatures = {finding.signature: finding.id for finding in named}
    places = {finding.id: finding.witness.place for finding in named}
    return Ids({**ids.by_signature, **signatures}, {**places, **ids.places})


def with_known(result: CheckResult, known: Sequence[Known]) -> CheckResult:
    """A check whose platforms say which entry of known.toml lists what they do.

    A platform has the signature that a finding of a campaign would have, followed by the name of the model.
    """

    def marked(name: str, item: PlatformResult) -> PlatformResult:
        if item.verdict.conclusion not in (*DEFECTS, Conclusion.HAZARD):
            return item
        entry = recognise(f"{_signature(name, item)} | {result.model}", known)
        return replace(item, known=str(entry)) if entry else item

    return replace(result, platforms={name: marked(name, item) for name, item in result.platforms.items()})


def is_known(verdict: Verdict, outcome: Outcome, operator: str, known: Sequence[Known]) -> bool:
    """Whether known.toml lists what a platform did to an operator."""
    return bool(known) and bool(group([_evidence(verdict, outcome, operator)], known=known)[0].known)


def _evidence(verdict: Verdict, outcome: Outcome, operator: str | None = None) -> Evidence:
    """A verdict by itself, of no campaign."""
    return Evidence(
        program=0, name="", nodes=0, base="", platform=outcome.platform,
        conclusion=verdict.conclusion, status=outcome.status.value, stage=outcome.stage.value,
        message=outcome.message, message_class=message_class(outcome.message),
        kind=verdict.kind.value if verdict.kind else None, blame=verdict.blame.value if verdict.blame else None,
        operator=operator,
    )  # fmt: skip


def _signature(platform: str, item: PlatformResult) -> str:
    outcome, verdict = item.outcome, item.verdict
    (finding,) = group([replace(_evidence(verdict, outcome), platform=platform)])
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

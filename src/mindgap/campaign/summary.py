"""What a campaign found, as numbers: the study's figures 3, 4 and 5, and what could not be decided."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field

from mindgap.campaign.ledger import Ledger
from mindgap.campaign.messages import message_class
from mindgap.campaign.plan import BASELINE, Plan, eager_of
from mindgap.campaign.triage import Finding
from mindgap.records.verdict import Conclusion


@dataclass(frozen=True, slots=True)
class PlatformCounts:
    """One platform of a campaign."""

    name: str
    version: str
    device: str
    due: int
    """Variants of its sample that the baseline has run."""
    statuses: Mapping[str, int]
    conclusions: Mapping[str, int]
    seconds: float
    """In its own stages."""
    against_eager: Mapping[str, int] = field(default_factory=dict)
    """For torch.compile: conclusions about it next to eager of the same device."""

    @property
    def done(self) -> int:
        return sum(self.statuses.values())

    @property
    def compiles(self) -> bool:
        """Whether it is torch.compile: compared with eager of the same device."""
        return eager_of(self.name) is not None


@dataclass(frozen=True, slots=True)
class CampaignSummary:
    """Everything that a report shows."""

    directory: str
    plan: Plan
    versions: Mapping[str, str]
    variants: int
    bases: int
    intents: Mapping[str, int]
    platforms: tuple[PlatformCounts, ...]
    findings: tuple[Finding, ...]
    hazards: Mapping[str, int] = field(default_factory=dict)
    """By rule of unspecified behaviour: verdicts that it explains."""
    unjudged: Mapping[str, int] = field(default_factory=dict)
    """By reason."""
    ledger_bytes: int = 0

    @property
    def new(self) -> tuple[Finding, ...]:
        return tuple(finding for finding in self.findings if not finding.known)


def summarise(ledger: Ledger, findings: list[Finding]) -> CampaignSummary:
    """Count what the ledger holds."""
    plan = ledger.plan()
    names = [row[0] for row in ledger.data.execute("SELECT name FROM platforms ORDER BY id")]
    fingerprints = [row[0] for row in ledger.data.execute("SELECT fingerprint FROM programs")]
    return CampaignSummary(
        directory=str(ledger.directory),
        plan=plan,
        versions=json.loads(ledger.meta("versions") or "{}"),
        variants=len(fingerprints),
        bases=_counts(ledger, "SELECT 'all', COUNT(DISTINCT base) FROM programs")["all"],
        intents=_counts(ledger, "SELECT intent, COUNT(*) FROM programs GROUP BY intent"),
        platforms=tuple(_platform(ledger, name, plan, fingerprints) for name in names),
        findings=tuple(findings),
        hazards=_counts(
            ledger,
            f"SELECT rule, COUNT(*) FROM verdicts WHERE conclusion = '{Conclusion.HAZARD.value}' "
            "GROUP BY rule ORDER BY 2 DESC",
        ),
        unjudged=_reasons(ledger),
        ledger_bytes=ledger.size_bytes(),
    )


def _platform(ledger: Ledger, name: str, plan: Plan, fingerprints: list[str]) -> PlatformCounts:
    identity, version, device = ledger.data.execute(
        "SELECT id, version, device FROM platforms WHERE name = ?", (name,)
    ).fetchone()
    where = f"WHERE platform = {int(identity)}"
    judged = {
        table: _counts(ledger, f"SELECT conclusion, COUNT(*) FROM {table} {where} GROUP BY conclusion")
        for table in ("verdicts", "compiled")
    }
    eager = eager_of(name)
    seconds = ledger.data.execute(f"SELECT COALESCE(SUM(seconds), 0) FROM outcomes {where}").fetchone()[0]
    return PlatformCounts(
        name=name,
        version=version,
        device=device,
        due=sum(plan.is_due(name, item) for item in fingerprints),
        statuses=_counts(ledger, f"SELECT status, COUNT(*) FROM outcomes {where} GROUP BY status"),
        conclusions=judged["verdicts"],
        seconds=float(seconds),
        against_eager={} if eager is None else judged["verdicts" if eager == BASELINE else "compiled"],
    )


def _reasons(ledger: Ledger) -> dict[str, int]:
    """Why verdicts could not be made; the output and the numbers of a sentence do not make another reason."""
    query = f"SELECT sentence FROM verdicts WHERE conclusion = '{Conclusion.UNJUDGED.value}'"
    found: dict[str, int] = {}
    for (sentence,) in ledger.data.execute(query):
        _, _, told = str(sentence or "").rpartition("not judged: ")
        reason = message_class(told.partition(": ")[0])
        found[reason] = found.get(reason, 0) + 1
    return dict(sorted(found.items(), key=lambda pair: -pair[1]))


def _counts(ledger: Ledger, query: str) -> dict[str, int]:
    return {str(key): int(count) for key, count in ledger.data.execute(query)}

"""What a ledger holds that somebody should look at, and the findings that were made of it."""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from typing import Final

from mindgap.campaign.known import Known, recognise
from mindgap.campaign.ledger import Ledger
from mindgap.campaign.plan import BASELINE
from mindgap.campaign.triage import Evidence, Finding, numbered
from mindgap.records.verdict import Conclusion

FLAGGED: Final = (Conclusion.DIVERGES, Conclusion.UNSTABLE, Conclusion.FAILED)

_EVIDENCE: Final = f"""
SELECT v.program, p.name, p.nodes, b.fingerprint, f.name, v.conclusion, o.status, o.stage, o.message, o.class,
       v.kind, v.blame, v.fault, v.suspect, v.error_over_bound, v.sentence
FROM verdicts v JOIN programs p ON p.id = v.program JOIN bases b ON b.id = p.base
JOIN platforms f ON f.id = v.platform JOIN outcomes o ON o.program = v.program AND o.platform = v.platform
LEFT JOIN outcomes e ON e.program = v.program AND e.platform = (SELECT id FROM platforms WHERE name = '{BASELINE}')
WHERE v.conclusion IN ({", ".join(f"'{conclusion.value}'" for conclusion in FLAGGED)})
AND NOT (e.status <> 'ok' AND e.status = o.status AND e.class = o.class) -- both say no, in the same words
ORDER BY v.program, f.name
"""

_RELATIONS: Final = f"""
SELECT r.program, p.name, p.nodes, b.fingerprint, f.name, r.conclusion, 'ok', 'run', '', '',
       r.kind, 'candidate', NULL, NULL, r.error_over_bound, r.sentence, r.oracle
FROM relations r JOIN programs p ON p.id = r.program JOIN bases b ON b.id = p.base
JOIN platforms f ON f.id = r.platform
WHERE r.conclusion = '{Conclusion.DIVERGES.value}' ORDER BY r.program, f.name
"""


def read_evidence(ledger: Ledger) -> list[Evidence]:
    """Every verdict that is not an agreement, a rounding difference or a hazard."""
    names = [item.name for item in fields(Evidence)]
    rows = [dict(zip(names, row)) for query in (_EVIDENCE, _RELATIONS) for row in ledger.data.execute(query)]
    return [Evidence(**{**row, "conclusion": Conclusion(row["conclusion"])}) for row in rows]


def read_program(ledger: Ledger, number: int) -> bytes | None:
    """A program that was kept, encoded."""
    row = ledger.data.execute("SELECT program FROM programs WHERE id = ?", (number,)).fetchone()
    return zlib.decompress(row[0]) if row and row[0] is not None else None


def write_suspects(ledger: Ledger, platform: str, suspects: Mapping[int, str]) -> None:
    """By program: the operator where a divergence begins; empty where that could not be told."""
    here = "(SELECT id FROM platforms WHERE name = ?)"
    with ledger.data as data:
        data.executemany(
            f"UPDATE verdicts SET suspect = ? WHERE program = ? AND platform = {here}",
            [(suspect, program, platform) for program, suspect in suspects.items()],
        )


def write_findings(ledger: Ledger, findings: Sequence[Finding], known: Sequence[Known]) -> list[Finding]:
    """Replace the findings by these; ids that were given out stay with their signature."""
    before = dict(ledger.data.execute("SELECT signature, id FROM findings").fetchall())
    kept = []
    with ledger.data as data:
        data.execute("DELETE FROM members")
        data.execute("DELETE FROM findings")
        for identity, finding in numbered(findings, before):
            entry = recognise(finding.signature, known)
            finding = replace(finding, id=identity, known=f"{entry.id} {entry.link}".strip() if entry else "")
            kept.append(finding)
            data.execute(
                "INSERT INTO findings VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                (identity, finding.signature, finding.category, " ".join(finding.platforms), finding.kind,
                 finding.blame, finding.suspect, finding.stage, finding.message, finding.witness.program,
                 finding.witness.platform, finding.variants, finding.bases, finding.error_over_bound,
                 finding.known or None),
            )  # fmt: skip
            data.executemany(
                "INSERT INTO members SELECT ?, ?, id FROM platforms WHERE name = ?",
                [(identity, item.program, item.platform) for item in finding.evidence],
            )
    return kept

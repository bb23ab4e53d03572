"""Two campaigns hold the same: every outcome, verdict and finding, order and times aside."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from mindgap.campaign.reader import findings_of, open_ledger

TABLES = {
    "programs": "SELECT id, fingerprint, name, intent, mutations, nodes, recipe, steps, program FROM programs",
    "outcomes": "SELECT program, f.name, status, stage, message, class, digest, note FROM outcomes "
    "JOIN platforms f ON f.id = platform",
    "verdicts": "SELECT program, f.name, conclusion, kind, blame, error_over_bound, worst, rule, fault, sentence "
    "FROM verdicts JOIN platforms f ON f.id = platform",
}


def content(directory: Path) -> dict[str, list[tuple[Any, ...]]]:
    with open_ledger(directory) as data:
        found = {name: sorted(data.execute(query), key=repr) for name, query in TABLES.items()}
        findings = findings_of(data)
    found["findings"] = sorted(
        (
            f.signature,
            f.witness.program,
            f.witness.platform,
            f.variants,
            f.bases,
            f.error_over_bound,
            f.known,
            f.operator,
        )
        for f in findings
    )
    found["members"] = sorted((f.signature, e.program, e.platform) for f in findings for e in f.evidence)
    return found


def assert_same(first: Path, second: Path) -> None:
    one, two = content(first), content(second)
    for name in one:
        assert one[name] == two[name], name
    assert one["outcomes"]

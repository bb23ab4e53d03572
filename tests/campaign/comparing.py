"""Two campaigns hold the same: every outcome, verdict and finding, order and times aside."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from mindgap.campaign.ledger import Ledger

TABLES = {
    "programs": "SELECT id, fingerprint, name, intent, mutations, nodes, recipe, steps, program FROM programs",
    "outcomes": "SELECT program, f.name, status, stage, message, class, digest, note FROM outcomes "
    "JOIN platforms f ON f.id = platform",
    "verdicts": "SELECT program, f.name, conclusion, kind, blame, error_over_bound, worst, rule, fault, sentence, "
    "suspect FROM verdicts JOIN platforms f ON f.id = platform",
    "findings": "SELECT signature, witness, witness_platform, variants, bases, error_over_bound, known FROM findings",
    "members": "SELECT signature, program, f.name FROM members JOIN findings ON findings.id = finding "
    "JOIN platforms f ON f.id = platform",
}


def content(directory: Path) -> dict[str, list[tuple[Any, ...]]]:
    with Ledger(directory) as ledger:
        return {name: sorted(ledger.data.execute(query), key=repr) for name, query in TABLES.items()}


def assert_same(first: Path, second: Path) -> None:
    one, two = content(first), content(second)
    for name in TABLES:
        assert one[name] == two[name], name
    assert one["outcomes"]

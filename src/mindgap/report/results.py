"""What was concluded, one line per subject and platform: what comparisons, JUnit and Markdown are made of."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from mindgap.campaign.matrix import verdicts_of
from mindgap.campaign.plan import BASELINE
from mindgap.campaign.reader import open_ledger
from mindgap.operators.observed import Grade
from mindgap.records.check import CheckResult
from mindgap.report.documents import NOT_EXERCISED, CheckDocument, OperatorCell, as_document, read_checks
from mindgap.report.summary import check_document
from mindgap.report.sweeps import is_campaign, is_sweep, operators_of

_GRADES: Final = frozenset(g.value for g in Grade if not g.is_supported and g is not Grade.NOT_EXERCISED)
BAD: Final = frozenset({"diverges", "unstable", "failed", "differs", "unsupported", "rejected", "error", "crash",
                        "timeout", "oom"}) | _GRADES  # fmt: skip
QUIET: Final = frozenset({"agrees", "rounding", "works", "ok", Grade.AGREES.value})


@dataclass(frozen=True, slots=True)
class Result:
    """What one platform did with one subject: a model in a dtype, a program, an operator in a dtype."""

    subject: str
    platform: str
    word: str
    """The verdict or the status."""
    kind: str = ""
    error: float | None = None
    said: str = ""
    known: str = ""
    seconds: float = 0.0

    @property
    def is_bad(self) -> bool:
        return self.word in BAD


@dataclass(frozen=True, slots=True)
class Results:
    """All of one campaign, check or sweep."""

    subject: str
    """`campaign`, `check` or `operators`: only two of the same can be compared."""
    name: str
    versions: tuple[tuple[str, str], ...]
    lines: tuple[Result, ...]


def results_of(path: Path) -> Results:
    """What a campaign's directory or a JSON document holds."""
    if is_campaign(path) and not is_sweep(path):
        return campaign_results(path)
    if (found := operators_of(path)) is not None:
        return Results("operators", str(path), tuple(found.versions.items()), tuple(map(operator_result, found.cells)))
    documents = read_checks(path)
    versions = {key: value for document in documents for key, value in document.versions.items()}
    return Results("check", str(path), tuple(versions.items()), tuple(check_results(documents)))


def campaign_results(directory: Path) -> Results:
    with open_ledger(directory) as data:
        row = data.execute("SELECT versions FROM runs ORDER BY id DESC LIMIT 1").fetchone()
        lines = [
            Result(f"{name} {print_}", platform, word, kind or "", error, said or "", seconds=seconds)
            for print_, name, platform, word, kind, error, said, seconds in verdicts_of(data)
        ]
    versions = json.loads(row[0]) if row else {}
    return Results("campaign", str(directory), tuple(versions.items()), tuple(lines))


def lines_of(result: CheckResult) -> list[Result]:
    """One check as it is now."""
    return list(check_results([as_document(check_document([result]))]))


def check_results(documents: Sequence[CheckDocument]) -> Iterable[Result]:
    for document in documents:
        for run in document.runs:
            if run.eager.outcome != "ok":
                yield Result(run.subject, BASELINE, "failed", run.eager.outcome, said=run.eager.message)
            for name, item in run.platforms.items():
                kind = item.kind or (item.outcome if item.verdict == "failed" else "")
                said = item.sentence or item.message
                yield Result(run.subject, name, item.verdict, kind, item.error, said, item.known, item.seconds)


def operator_result(cell: OperatorCell) -> Result:
    word = cell.observed or NOT_EXERCISED
    return Result(f"{cell.operator} {cell.dtype}", cell.platform, word, said=cell.said)

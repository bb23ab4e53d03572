"""A campaign model by model and platform by platform, for pages: queries of a ledger that is only read."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final

from mindgap.campaign.plan import BASELINE
from mindgap.records.verdict import Conclusion

SAME, ROUNDING, FAULT, DIFFERS, OPEN = "same bits", "rounding", "same fault", "differs", "not judged"
"""How the outputs of two platforms compare: identical, apart by no more than rounding explains, both wrong in the same
way, apart by more, or one of them a hazard or not judged."""


@dataclass
class Cell:
    """One model on one platform."""

    model: str
    base: str
    """The fingerprint of the model."""
    kind: str
    """`variant` or `fragment`."""
    platform: str
    counts: dict[str, int] = field(default_factory=dict)
    """Programs by conclusion."""
    worst: float | None = None
    """The largest error over what rounding explains."""


@dataclass(frozen=True, slots=True)
class Pair:
    """One model on two platforms: how many programs compare how."""

    model: str
    kind: str
    first: str
    second: str
    how: str
    count: int


def labels_of(data: sqlite3.Connection) -> dict[int, str]:
    """The name of every platform by its number; with the version where it has several."""
    rows = data.execute("SELECT id, name, version FROM platforms ORDER BY id").fetchall()
    names = [name for _, name, _ in rows]
    return {number: f"{name} {version}" if names.count(name) > 1 else name for number, name, version in rows}


def cells_of(data: sqlite3.Connection) -> list[Cell]:
    """Every model on every platform that was judged there."""
    labels = labels_of(data)
    found: dict[tuple[str, str, int], Cell] = {}
    rows = data.execute(
        "SELECT b.fingerprint, b.name, p.kind, v.platform, v.conclusion, COUNT(*), MAX(v.error_over_bound) "
        "FROM verdicts v JOIN programs p ON p.id = v.program JOIN bases b ON b.id = p.base GROUP BY 1, 3, 4, 5"
    )
    for base, name, kind, platform, conclusion, count, worst in rows:
        cell = found.setdefault((base, kind, platform), Cell(name, base, kind, labels[platform]))
        cell.counts[conclusion] = count
        if worst is not None and (cell.worst is None or worst > cell.worst):
            cell.worst = worst
    return list(found.values())


_PAIRS: Final = f"""
WITH judged AS (
  SELECT o.program, o.platform, o.digest, v.fault, CASE WHEN f.name = '{BASELINE}' THEN '{Conclusion.AGREES.value}'
    ELSE v.conclusion END AS conclusion
  FROM outcomes o JOIN platforms f ON f.id = o.platform
  LEFT JOIN verdicts v ON v.program = o.program AND v.platform = o.platform WHERE o.status = 'ok')
SELECT b.name, p.kind, x.platform, y.platform,
  CASE WHEN x.digest = y.digest THEN '{SAME}'
    WHEN x.conclusion IN ('agrees', 'rounding') AND y.conclusion IN ('agrees', 'rounding') THEN '{ROUNDING}'
    WHEN x.fault = y.fault THEN '{FAULT}'
    WHEN x.conclusion IN ('diverges', 'unstable') OR y.conclusion IN ('diverges', 'unstable') THEN '{DIFFERS}'
    ELSE '{OPEN}' END AS how, COUNT(*)
FROM judged x JOIN judged y ON y.program = x.program AND x.platform < y.platform
JOIN programs p ON p.id = x.program JOIN bases b ON b.id = p.base
GROUP BY p.base, p.kind, x.platform, y.platform, how
"""


def pairs_of(data: sqlite3.Connection) -> list[Pair]:
    """Every two platforms that both ran programs of a model."""
    labels = labels_of(data)
    return [
        Pair(name, kind, labels[first], labels[second], how, count)
        for name, kind, first, second, how, count in data.execute(_PAIRS)
    ]


RUN_COLUMNS: Final = (
    "program", "model", "platform", "status", "verdict", "what differs", "error / rounding", "message", "blame",
    "stage", "kind", "intent", "mutations", "nodes", "seconds",
)  # fmt: skip
_LOUD: Final = "('diverges', 'unstable', 'hazard', 'unjudged', 'failed')"
_RUNS: Final = f"""
SELECT o.program, b.name, o.platform, o.status, COALESCE(v.conclusion, ''), COALESCE(v.kind, ''),
  v.error_over_bound, CASE WHEN o.message <> '' THEN o.message ELSE COALESCE(v.sentence, '') END,
  COALESCE(v.blame, ''), o.stage, p.kind, p.intent, p.mutations, p.nodes, o.seconds
FROM outcomes o JOIN programs p ON p.id = o.program JOIN bases b ON b.id = p.base
LEFT JOIN verdicts v ON v.program = o.program AND v.platform = o.platform
WHERE COALESCE(v.conclusion, '') IN {_LOUD} = ? AND o.program % ? = 0
ORDER BY o.program, o.platform LIMIT ?
"""
MOST_MESSAGE: Final = 160
"""Characters of a message in a table; the page of its finding has it whole."""


def runs_of(data: sqlite3.Connection, most: int) -> tuple[list[list[Any]], int]:
    """Rows under RUN_COLUMNS, and how many there are in all: first what somebody should look at, then an even sample
    of the others, at most so many of either."""
    labels = labels_of(data)
    total = int(data.execute("SELECT COUNT(*) FROM outcomes").fetchone()[0])
    loud = int(data.execute(f"SELECT COUNT(*) FROM verdicts WHERE conclusion IN {_LOUD}").fetchone()[0])
    rows = [*_rows(data, labels, 1, loud, most), *_rows(data, labels, 0, total - loud, most)]
    return rows, total


def _rows(data: sqlite3.Connection, labels: dict[int, str], is_loud: int, there: int, most: int) -> Iterator[list[Any]]:
    every = max(1, -(-there // most))
    for row in data.execute(_RUNS, (is_loud, every, most)):
        found = list(row)
        found[2], found[7] = labels[row[2]], row[7][:MOST_MESSAGE]
        yield found


def verdicts_of(
    data: sqlite3.Connection,
) -> Iterator[tuple[str, str, str, str, str | None, float | None, str | None, float]]:
    """Every verdict: fingerprint and name of the model's program, platform, conclusion, kind, error, sentence, time.

    The newest version of a platform counts, where a program ran in several.
    """
    yield from data.execute(
        "SELECT p.fingerprint, b.name, f.name, v.conclusion, COALESCE(v.kind, CASE WHEN o.status <> 'ok' THEN o.status "
        "END), v.error_over_bound, COALESCE(NULLIF(o.message, ''), v.sentence), o.seconds FROM verdicts v "
        "JOIN programs p ON p.id = v.program JOIN bases b ON b.id = p.base JOIN platforms f ON f.id = v.platform "
        "JOIN outcomes o ON o.program = v.program AND o.platform = v.platform ORDER BY v.program, f.name, f.id"
    )

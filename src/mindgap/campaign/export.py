"""The tables of a ledger as files, with names in place of numbers."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from mindgap.campaign.ledger import Ledger
from mindgap.errors import UsageError
from mindgap.records.files import write_whole

TABLES: Final = {
    "programs": """SELECT p.id AS program, p.fingerprint, p.name, b.name AS base, b.fingerprint AS base_fingerprint,
        p.intent, p.mutations, p.nodes, p.recipe, p.steps
        FROM programs p JOIN bases b ON b.id = p.base ORDER BY p.id""",
    "outcomes": """SELECT o.program, f.name AS platform, o.status, o.stage, o.message, o.class, HEX(o.digest) AS digest,
        o.stable, o.note, o.seconds FROM outcomes o JOIN platforms f ON f.id = o.platform ORDER BY 1, 2""",
    "verdicts": """SELECT v.program, f.name AS platform, v.conclusion, v.kind, v.blame, v.error_over_bound,
        v.eager_error_over_bound, v.worst, v.rule, v.fault, v.suspect, v.sentence
        FROM verdicts v JOIN platforms f ON f.id = v.platform ORDER BY 1, 2""",
    "compiled": """SELECT c.program, f.name AS platform, c.conclusion, c.kind, c.error_over_bound, c.sentence
        FROM compiled c JOIN platforms f ON f.id = c.platform ORDER BY 1, 2""",
    "relations": """SELECT r.program, f.name AS platform, r.oracle, r.conclusion, r.kind, r.error_over_bound, r.worst,
        r.sentence FROM relations r JOIN platforms f ON f.id = r.platform ORDER BY 1, 2, 3""",
    "findings": "SELECT * FROM findings ORDER BY id",
    "members": """SELECT m.finding, m.program, f.name AS platform FROM members m
        JOIN platforms f ON f.id = m.platform ORDER BY 1, 2, 3""",
}


def export(directory: Path, target: Path, parquet: bool = False) -> dict[str, tuple[int, Path]]:
    """Write every table; by name its number of rows and its file."""
    with Ledger(directory) as ledger:
        target.mkdir(parents=True, exist_ok=True)
        found = {}
        for name, query in TABLES.items():
            cursor = ledger.data.execute(query)
            columns = [column[0] for column in cursor.description]
            rows = cursor.fetchall()
            path = target / f"{name}.{'parquet' if parquet else 'csv'}"
            write_whole(path, _parquet(columns, rows) if parquet else _csv(columns, rows))
            found[name] = (len(rows), path)
    return found


def _csv(columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    text = io.StringIO()
    writer = csv.writer(text)
    writer.writerow(columns)
    writer.writerows(rows)
    return text.getvalue()


def _parquet(columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> bytes:
    try:
        import pyarrow
        from pyarrow import parquet
    except ImportError as error:
        raise UsageError(
            "--parquet needs pyarrow", hint="pip install 'mindgap[parquet]'; or leave --parquet out"
        ) from error
    values = list(zip(*rows)) if rows else [()] * len(columns)
    table = pyarrow.table({name: pyarrow.array(list(column)) for name, column in zip(columns, values)})
    sink = pyarrow.BufferOutputStream()
    parquet.write_table(table, sink)
    return bytes(sink.getvalue().to_pybytes())

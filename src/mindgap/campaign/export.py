"""The tables of a campaign as files, with names in place of numbers."""

from __future__ import annotations

import csv
import io
import sqlite3
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

from mindgap.campaign.reader import findings_of, open_ledger
from mindgap.errors import UsageError
from mindgap.records.files import write_whole

TABLES: Final = {
    "programs": """SELECT p.id AS program, p.fingerprint, p.name, b.name AS base, b.fingerprint AS base_fingerprint,
        p.kind, p.intent, p.mutations, p.nodes, p.recipe, p.steps
        FROM programs p JOIN bases b ON b.id = p.base ORDER BY p.id""",
    "outcomes": """SELECT o.program, f.name AS platform, f.version, o.status, o.stage, o.message, o.class,
        HEX(o.digest) AS digest, o.stable, o.note, o.seconds, o.fallback
        FROM outcomes o JOIN platforms f ON f.id = o.platform ORDER BY 1, 2, 3""",
    "verdicts": """SELECT v.program, f.name AS platform, f.version, v.conclusion, v.kind, v.blame, v.error_over_bound,
        v.eager_error_over_bound, v.worst, v.rule, v.fault, v.sentence
        FROM verdicts v JOIN platforms f ON f.id = v.platform ORDER BY 1, 2, 3""",
    "compiled": """SELECT c.program, f.name AS platform, f.version, c.conclusion, c.kind, c.error_over_bound, c.sentence
        FROM compiled c JOIN platforms f ON f.id = c.platform ORDER BY 1, 2, 3""",
    "relations": """SELECT r.program, f.name AS platform, f.version, r.oracle, r.conclusion, r.kind, r.error_over_bound,
        r.worst, r.sentence FROM relations r JOIN platforms f ON f.id = r.platform ORDER BY 1, 2, 3, 4""",
    "explanations": """SELECT x.program, f.name AS platform, f.version, x.operator, x.cause, x.remark, x.layer,
        x.folder, x.problem FROM explanations x JOIN platforms f ON f.id = x.platform ORDER BY 1, 2, 3""",
    "runs": "SELECT id AS run, started, versions FROM runs ORDER BY 1",
}

FINDINGS: Final = [
    "id", "signature", "category", "platforms", "kind", "blame", "operator", "cause", "remark", "layer", "stage",
    "message", "witness", "witness_platform", "variants", "fragments", "bases", "error_over_bound", "folder",
]  # fmt: skip


def export(directory: Path, target: Path, parquet: bool = False) -> dict[str, tuple[int, Path]]:
    """Write every table; by name its number of rows and its file."""
    with open_ledger(directory) as data:
        try:
            target.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise UsageError(f"cannot write to {target}", cause=error.strerror) from error
        found = {}
        for name, columns, rows in _tables(data):
            found[name] = (len(rows), write_table(target, name, columns, rows, parquet))
    return found


def write_table(target: Path, name: str, columns: Sequence[str], rows: Sequence[Sequence[Any]], parquet: bool) -> Path:
    """One table in its file."""
    path = target / f"{name}.{'parquet' if parquet else 'csv'}"
    write_whole(path, _parquet(columns, rows) if parquet else _csv(columns, rows))
    return path


def _tables(data: sqlite3.Connection) -> Iterator[tuple[str, list[str], list[tuple[Any, ...]]]]:
    for name, query in TABLES.items():
        cursor = data.execute(query)
        yield name, [column[0] for column in cursor.description], cursor.fetchall()
    findings = findings_of(data)
    rows = []
    for item in findings:
        cause = item.explanation.cause if item.explanation else None
        layer = item.explanation.layer if item.explanation else None
        rows.append((
            item.id, item.signature, item.category, " ".join(item.platforms), item.kind, item.blame, item.operator,
            cause.kind.value if cause else None, cause.remark if cause else None, layer.name if layer else None,
            item.stage, item.message, item.witness.program, item.witness.platform, item.variants, item.fragments,
            item.bases, item.error_over_bound, item.folder,
        ))  # fmt: skip
    yield "findings", FINDINGS, rows
    members = [(item.id, part.program, part.platform) for item in findings for part in item.evidence]
    yield "members", ["finding", "program", "platform"], members


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

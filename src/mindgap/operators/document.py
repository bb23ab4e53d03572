"""The whole answer of `mindgap ops` as plain data, for files and for comparing with an earlier one."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import Any, Final

from mindgap.operators.beside import Beside
from mindgap.operators.declared import Count, Declaration, Has, Taken
from mindgap.operators.models import Need, Reach, prospect
from mindgap.operators.observed import ORDER, Grade, Observed, Share
from mindgap.operators.proving import Proof
from mindgap.reading.files import read_file, refusing

SCHEMA: Final = "mindgap.ops/1"
BASELINE_BYTES: Final = 64 << 20


@dataclass(frozen=True, slots=True)
class Answer:
    """What is known about operators on platforms: declared and observed side by side, never mixed."""

    declared: tuple[Declaration, ...] = ()
    own: tuple[Count, ...] = ()
    """Operators with a kernel of their own, next to the reference."""
    any_way: tuple[Count, ...] = ()
    """Operators that run in any way, composites included."""
    taken: tuple[Taken, ...] = ()
    """Operators by element type, where element types were asked for."""
    unknown: Mapping[str, str] | None = None
    """Platforms that nothing is declared of, and why."""
    observed: Observed | None = None
    shares: tuple[Share, ...] = ()
    beside: tuple[Beside, ...] = ()
    """Declared and observed over the same operators."""
    needs: Mapping[str, Sequence[Need]] | None = None
    """By platform: what one model needs."""
    model: str = ""
    reaches: tuple[Reach, ...] = ()
    """Predicted, by platform: real models that could run."""
    models: str = ""
    """Which models counted, and how many."""
    weights: Mapping[str, int] | None = None
    proofs: tuple[Proof, ...] = ()
    """Scripts for what is wrong or crashes, and whether they showed it again."""
    operators: tuple[str, ...] = ()
    """Operators that were asked for by name; all where empty."""
    without_samples: str = ""
    """Why torch's own samples are not among the invocations; empty where they are, or were not asked for."""
    versions: Mapping[str, str] | None = None


def document(answer: Answer) -> dict[str, Any]:
    """The answer as JSON."""
    found: dict[str, Any] = {
        "schema": SCHEMA,
        "made": f"{datetime.now(timezone.utc):%Y-%m-%dT%H:%M:%SZ}",
        "versions": dict(answer.versions or {}),
        "model": answer.model or None,
        "models": answer.models,
        "declared_dtypes": [asdict(item) for item in answer.taken],
        "declared": [_declared(answer, item) for item in answer.declared],
        "not_declared": dict(answer.unknown or {}),
        "predicted": [
            {
                "platform": item.platform, "models": item.models, "runnable": item.runnable,
                "perhaps": item.perhaps,
                "blocking": dict(item.blocking),
                "unlocking": [{"operator": u.op, "models": u.models, "blocked": u.blocked} for u in item.unlocking],
            }
            for item in answer.reaches
        ],
        "could_run": {platform: prospect(needs).value for platform, needs in (answer.needs or {}).items()},
        "needs": {
            platform: [
                {"operator": n.op, "has": n.has.value, "replacement": list(n.replacement),
                 "missing_parts": list(n.missing_parts), "made_of": list(n.made_of)}
                for n in needs
            ]
            for platform, needs in (answer.needs or {}).items()
        },
        "observed": None,
    }  # fmt: skip
    if answer.observed is not None:
        found["observed"] = _observed(answer, answer.observed)
    return found


def _declared(answer: Answer, item: Declaration) -> dict[str, Any]:
    by_name = {count.platform: count for count in answer.any_way}
    own = {count.platform: count for count in answer.own}
    told = {op: has.value for op, has in item.operators.items() if not answer.operators or op in answer.operators}
    return {
        "platform": item.platform,
        "source": item.source,
        "is_complete": item.is_complete,
        "note": item.note,
        "custom": item.custom,
        "dtypes": list(item.dtypes),
        "fewer_percent": _percent(by_name.get(item.platform)),
        "parts_not_known": by_name[item.platform].untraced if item.platform in by_name else None,
        "fewer_percent_own_kernels": _percent(own.get(item.platform)),
        "operators": told,
        "dtypes_by_operator": {op: list(item.dtypes_of[op]) for op in told if op in item.dtypes_of},
        "providers": [asdict(provider) for provider in item.providers],
    }


def _rounded(percent: float | None) -> float | None:
    return None if percent is None else round(percent, 1)


def _percent(count: Count | None) -> float | None:
    return None if count is None else round(count.percent, 1)


def _observed(answer: Answer, found: Observed) -> dict[str, Any]:
    return {
        "started": found.started,
        "scripts": [asdict(proof) for proof in answer.proofs],
        "versions": dict(found.versions),
        "programs": found.programs,
        "kinds": dict(found.kinds),
        "without_samples": answer.without_samples,
        "shares": [
            {
                "platform": s.platform, "mode": found.modes.get(s.platform),
                "dtype": s.dtype, "exercised": s.exercised, "running": s.running,
                "supported": s.supported, "fewer_percent": round(s.fewer_percent, 1),
                "supported_percent": round(s.supported_percent, 1), "weighted_percent": round(s.weighted_percent, 1),
                "only_exceptional": s.only_exceptional, "grades": dict(s.grades),
            }
            for s in answer.shares
        ],
        "beside": [
            asdict(b)
            | {
                "declared_fewer_percent": _rounded(b.declared_fewer_percent),
                "running_fewer_percent": _rounded(b.running_fewer_percent),
                "declared_weighted_percent": _rounded(b.declared_weighted_percent),
                "running_weighted_percent": _rounded(b.running_weighted_percent),
            }
            for b in answer.beside
        ],
        "cells": [
            {
                "platform": platform, "operator": op, "dtype": dtype, "grade": cell.grade.value,
                "invocations": dict(cell.invocations), "worst": cell.worst, "message": cell.message,
                "runs_elsewhere": cell.runs_elsewhere, "confirmed": cell.confirmed,
                "only_exceptional": cell.only_exceptional,
                "refused_like_eager": cell.refused_like_eager,
            }
            for (platform, op, dtype), cell in sorted(found.cells.items())
        ],
    }  # fmt: skip


def table(answer: Answer) -> str:
    """Every cell as a line of CSV."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["evidence", "platform", "operator", "dtype", "status", "invocations", "models", "message", "mode"])
    weights = answer.weights or {}
    for item in answer.declared:
        for op, has in item.operators.items():
            if not answer.operators or op in answer.operators:
                writer.writerow(["declared", item.platform, op, "", has.value, "", weights.get(op, 0), "", "default"])
    modes = answer.observed.modes if answer.observed is not None else {}
    for (platform, op, dtype), cell in sorted(answer.observed.cells.items()) if answer.observed else ():
        count = sum(cell.invocations.values())
        row = [
            "observed",
            platform,
            op,
            dtype,
            cell.grade.value,
            count,
            weights.get(op, 0),
            cell.message,
            modes.get(platform, ""),
        ]
        writer.writerow([_unarmed(item) for item in row])
    return text.getvalue()


def _unarmed(value: object) -> object:
    """A message must not become a formula in a spreadsheet."""
    return f"'{value}" if isinstance(value, str) and value[:1] in "=+-@\t\r" and value else value


@dataclass(frozen=True, slots=True)
class Change:
    """One cell that is another than in an earlier answer."""

    evidence: str
    platform: str
    operator: str
    dtype: str
    before: str
    now: str
    is_worse: bool


def read_baseline(path: Path) -> dict[str, Any]:
    """An earlier answer; raises CorruptFile when it is none."""
    with refusing(f"{path.name} is not a result of mindgap ops", path):
        found = json.loads(read_file(path, BASELINE_BYTES))
        if not isinstance(found, dict) or found.get("schema") != SCHEMA:
            raise ValueError(f"its schema is not {SCHEMA}")
        _cells(found)
        return found


def changes(before: Mapping[str, Any], now: Mapping[str, Any]) -> list[Change]:
    """Cells of both answers that differ; what only one of them holds is no change."""
    old, new = _cells(before), _cells(now)
    found = [
        Change(*key, old[key], new[key], _rank(key[0], new[key]) < _rank(key[0], old[key]))
        for key in sorted(old.keys() & new.keys())
        if old[key] != new[key]
    ]
    return sorted(found, key=lambda change: not change.is_worse)


def _cells(found: Mapping[str, Any]) -> dict[tuple[str, str, str, str], str]:
    cells: dict[tuple[str, str, str, str], str] = {}
    for item in found["declared"]:
        for op, has in item["operators"].items():
            cells["declared", str(item["platform"]), str(op), ""] = Has(has).value
    for cell in (found["observed"] or {"cells": []})["cells"]:
        grade = Grade(cell["grade"])
        if grade is not Grade.NOT_EXERCISED:
            cells["observed", str(cell["platform"]), str(cell["operator"]), str(cell["dtype"])] = grade.value
    return cells


def _rank(evidence: str, value: str) -> int:
    """More is better."""
    if evidence == "observed":
        return ORDER[Grade(value)]
    return 2 if Has(value).runs else 1 if Has(value) is Has.SOME else 0

"""How explanations do on real differences whose truth is known: located, reduced, proven."""

from __future__ import annotations

import json
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

from mindgap.bench.embedding import HOSTS, embedded, fitting_host
from mindgap.bench.measurement import Measurement, median
from mindgap.bench.side_by_side import Row, make_rows
from mindgap.errors import MindgapError, ModelError, UsageError
from mindgap.execution.parcel import Constants, open_parcel
from mindgap.explanation.explain import explain_case
from mindgap.platforms.registry import resolve
from mindgap.platforms.versions import versions
from mindgap.records.explanation import Explanation
from mindgap.reduction.reducer import Budget
from mindgap.session.session import Session
from mindgap.tracing.examine import Examiner

FEW: Final = 3
"""Operators that a maintainer is willing to read."""


def measure(
    tell: Callable[[str, str], None],
    folder: Path,
    platforms: Sequence[str] = (),
    only: Sequence[str] = (),
    budget_s: float = 60.0,
    kept: Path | None = None,
    within: bool = False,
    jobs: int = 2,
) -> Measurement:
    """Explain every defect of a folder of cases; rows that `kept` holds already are not made again.

    With `within`, each case stands in the middle of a real program, and its operators must be found there.
    """
    cases = _truth(folder)
    unknown = [name for name in only if name not in cases]
    if unknown:
        raise UsageError(f"there is no case {unknown[0]} in {folder}", hint="give --only once for each name")
    todo = [
        (name, platform)
        for name, truth in cases.items()
        for platform, right in truth["platforms"].items()
        if right == ["diverges"] and (not only or name in only) and (not platforms or platform in platforms)
    ]
    todo.sort(key=lambda item: item[1])  # one platform after the other: its worker stays warm
    with tempfile.TemporaryDirectory() as place:

        def work(number: int, name: str, platform: str) -> Callable[[Session], Row]:
            target = Path(place) / f"{name}-{platform.replace('@', '-')}"
            inside = number if within else None
            return lambda session: _explained(session, folder / f"{name}.py", platform, target, budget_s, inside)

        pieces = {f"{item[0]} on {item[1]}": work(number, *item) for number, item in enumerate(todo, start=1)}
        found = make_rows(pieces, jobs, kept, lambda what: tell("explain", what))
    named = sorted({row["platform"] for row in found})
    table = [_summary(platform, [row for row in found if row["platform"] == platform]) for platform in named]
    table.append(_summary("all", found))
    return Measurement(
        name="explain",
        what=f"real differences explained: reduced to at most {FEW} operators, by a script that was re-run in a fresh "
        "process and shows the difference",
        on=f"{len({row['case'] for row in found})} cases, each on the platforms that are known to diverge; "
        f"{budget_s:g} s for each reduction" + (f"; each case inside one of {', '.join(HOSTS)}" if within else ""),
        rows=tuple(table),
        conclusion="\n".join([_sentence(found), *map(_failure, filter(_failed, found))]),
        versions=versions(),
    )


def _explained(session: Session, path: Path, platform: str, target: Path, budget_s: float, place: int | None) -> Row:
    start = time.perf_counter()
    row: Row = {"case": path.stem, "platform": platform, "problem": ""}
    try:
        if place is None:
            found = session.explain(str(path.absolute()), platform, target, budget=Budget(budget_s))
        else:
            found, own = _explained_within(session, path, platform, target, budget_s, place)
            row["named"] = found.culprits[0] in own
    except Exception as error:  # a bug of ours is a row too: the others still count
        text = str(error) if isinstance(error, MindgapError) else f"bug: {type(error).__name__}: {error}"
        return {**row, "problem": text.replace("\n", " "), "seconds": time.perf_counter() - start}
    return {
        **row,
        "nodes": len(found.proof.operators),
        "elements": found.proof.elements,
        "operators": list(found.proof.operators),
        "survived": found.proof.survived,
        "reproduces": found.script.reproduces,
        "said": "" if found.script.reproduces else found.script.said[-400:],
        "class": found.cause.kind.value,
        "remark": found.cause.remark,
        "layer": found.layer.name if found.layer else "",
        "vanishes": list(found.cause.vanishes),
        "trials": found.trials,
        "trace_runs": round(found.plain_runs, 2),
        "seconds": time.perf_counter() - start,
    }


def _explained_within(
    session: Session, path: Path, platform: str, target: Path, budget_s: float, place: int
) -> tuple[Explanation, frozenset[int]]:
    """The explanation of a case in the middle of a real program, and which nodes are the case's own."""
    parcel = session.build(str(path.absolute()), None)
    if not parcel.program:
        raise ModelError("the case cannot be exported", cause=parcel.export_failure)
    case = open_parcel(parcel.without_source(), Constants())
    spec = resolve(platform, session.config)
    examiner = Examiner(session.pool, resolve("eager", session.config), spec)
    whole, own = embedded(case, fitting_host(place, examiner))
    found = explain_case(session.pool, path.stem, whole, spec, session.config, target, Budget(budget_s))
    return found, own


def _failed(row: Row) -> bool:
    return bool(row["problem"]) or not row["reproduces"] or row["nodes"] > FEW or row.get("named") is False


def _failure(row: Row) -> str:
    why = row["problem"] or (
        "the script does not show it"
        if not row["reproduces"]
        else "another operator was named"
        if row.get("named") is False
        else f"{row['nodes']} operators"
    )
    return f"  {row['case']} on {row['platform']}: {why[:200]}"


def _summary(platform: str, rows: Sequence[Row]) -> Row:
    done = [row for row in rows if not row["problem"]]
    return {
        "platform": platform,
        "differences": len(rows),
        "explained": len(done),
        **({"named first": sum(row["named"] for row in done)} if any("named" in row for row in done) else {}),
        f"at most {FEW} operators": sum(row["nodes"] <= FEW for row in done),
        "one operator": sum(row["nodes"] == 1 for row in done),
        "script shows it": sum(row["reproduces"] for row in done),
        "both": sum(not _failed(row) for row in rows),
        "elements (median)": median([row["elements"] for row in done]),
        "tracing, in plain runs (median)": median([row["trace_runs"] for row in done]),
        "programs run (median)": median([row["trials"] for row in done]),
        "seconds (median)": median([row["seconds"] for row in done]),
    }


def _sentence(rows: Sequence[Row]) -> str:
    good = sum(not _failed(row) for row in rows)
    classes: dict[str, int] = {}
    for row in rows:
        if not row["problem"]:
            classes[row["class"]] = classes.get(row["class"], 0) + 1
    listed = ", ".join(f"{count} {name}" for name, count in sorted(classes.items(), key=lambda item: -item[1]))
    return f"{good} of {len(rows)} differences: at most {FEW} operators and a script that shows them. Causes: {listed}"


def _truth(folder: Path) -> dict[str, Any]:
    try:
        found: dict[str, Any] = json.loads((folder / "truth.json").read_text())
    except (OSError, ValueError) as error:
        raise UsageError("the cases cannot be read", where=str(folder), cause=str(error)) from error
    return found

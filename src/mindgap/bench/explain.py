"""How explanations do on real differences whose truth is known: located, reduced, proven."""

from __future__ import annotations

import tempfile
import time
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from mindgap.bench.cases import read_truth
from mindgap.bench.embedding import HOSTS, embedded, fitting_host
from mindgap.bench.measurement import Measurement, Row, Tell, grouped, median
from mindgap.bench.side_by_side import make_rows, problem_of
from mindgap.errors import ModelError, UsageError
from mindgap.execution.parcel import Constants, open_parcel
from mindgap.explanation.explain import explain_case
from mindgap.platforms.registry import resolve
from mindgap.records.explanation import Explanation
from mindgap.reduction.reducer import Budget
from mindgap.session.session import Session
from mindgap.tracing.examine import Examiner

FEW: Final = 3
"""Operators that a maintainer is willing to read."""


def measure(
    tell: Tell,
    folder: Path = Path("cases"),
    on: Sequence[str] = (),
    only: Sequence[str] = (),
    budget: float = 120.0,
    keep: Path | None = None,
    within: bool = False,
    jobs: int = 2,
) -> Measurement:
    """Explain every defect of a folder of cases; rows that `keep` holds already are not made again.

    With `within`, each case stands in the middle of a real program, and its operators must be found there.
    """
    cases = read_truth(folder)
    unknown = [name for name in only if name not in cases]
    if unknown:
        raise UsageError(f"there is no case {unknown[0]} in {folder}", hint="repeat --only for several cases")
    todo = [
        (platform, name)
        for name, truth in cases.items()
        for platform, right in truth["platforms"].items()
        if right == ["diverges"] and (not only or name in only) and (not on or platform in on)
    ]
    todo.sort(key=lambda item: item[0])  # one platform after the other: its worker stays warm
    with tempfile.TemporaryDirectory() as place:

        def work(number: int, platform: str, name: str) -> Callable[[Session], Row]:
            target = Path(place) / f"{name}-{platform.replace('@', '-')}"
            inside = number if within else None
            return lambda session: _explained(session, folder / f"{name}.py", platform, target, budget, inside)

        pieces = {f"{name} on {platform}": work(n, platform, name) for n, (platform, name) in enumerate(todo, start=1)}
        found = make_rows(pieces, jobs, keep, lambda what: tell("explain", what))
    good = sum(not _missed(row) for row in found)
    causes = Counter(row["class"] for row in found if not row["problem"]).most_common()
    return Measurement(
        name="explain",
        what=f"real differences explained: reduced to at most {FEW} operators, by a script that was re-run in a fresh "
        "process and shows the difference",
        on=f"{len({row['case'] for row in found})} cases, each on the platforms that are known to diverge; "
        f"{budget:g} s per explanation" + (f"; each case inside one of {', '.join(HOSTS)}" if within else ""),
        rows=grouped(found, lambda row: str(row["platform"]), _summary),
        conclusion="\n".join(
            [
                f"{good} of {len(found)} differences: at most {FEW} operators and a script that shows them. "
                f"Causes: {', '.join(f'{count} {name}' for name, count in causes)}",
                *(f"  {row['case']} on {row['platform']}: {_missed(row)[:200]}" for row in found if _missed(row)),
            ]
        ),
    )


def _explained(session: Session, path: Path, platform: str, target: Path, budget: float, place: int | None) -> Row:
    start = time.perf_counter()
    row: Row = {"case": path.stem, "platform": platform, "problem": ""}
    try:
        if place is None:
            found = session.explain(str(path.absolute()), platform, target, budget=Budget(budget))
        else:
            found, own = _explained_within(session, path, platform, target, budget, place)
            row["named"] = found.culprits[0] in own
    except Exception as error:
        return {**row, "problem": problem_of(error), "seconds": time.perf_counter() - start}
    return {**row, **result_columns(found), "seconds": time.perf_counter() - start}


def result_columns(found: Explanation) -> Row:
    """What a benchmark keeps of an explanation."""
    return {
        "nodes": len(found.proof.operators),
        "elements": found.proof.elements,
        "operators": list(found.proof.operators),
        "reproduces": found.script.reproduces,
        "said": "" if found.script.reproduces else found.script.said[-400:],
        "class": found.cause.kind.value,
        "remark": found.cause.remark,
        "layer": found.layer.name if found.layer else "",
        "trials": found.trials,
        "trace_runs": round(found.plain_runs, 2),
        "problem": "",
    }


def _explained_within(
    session: Session, path: Path, platform: str, target: Path, budget: float, place: int
) -> tuple[Explanation, frozenset[int]]:
    """The explanation of a case in the middle of a real program, and which nodes are the case's own."""
    parcel = session.build(str(path.absolute()), None)
    if not parcel.program:
        raise ModelError("the case cannot be exported", cause=parcel.export_failure)
    case = open_parcel(parcel.without_source(), Constants())
    spec = resolve(platform, session.config)
    examiner = Examiner(session.pool, resolve("eager", session.config), spec)
    whole, own = embedded(case, fitting_host(place, examiner))
    found = explain_case(session.pool, path.stem, whole, spec, session.config, target, Budget(budget))
    return found, own


def _missed(row: Row) -> str:
    """What an explanation lacks; empty when it is as it should be."""
    if row["problem"]:
        return str(row["problem"])
    if not row["reproduces"]:
        return "the script does not show it"
    if row.get("named") is False:
        return "another operator was named"
    return "" if row["nodes"] <= FEW else f"{row['nodes']} operators"


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
        "both": sum(not _missed(row) for row in rows),
        "elements (median)": median([row["elements"] for row in done]),
        "tracing, in plain runs (median)": median([row["trace_runs"] for row in done]),
        "programs run (median)": median([row["trials"] for row in done]),
        "seconds (median)": median([row["seconds"] for row in done]),
    }

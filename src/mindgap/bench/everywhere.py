"""Models on every platform that is ready here, one platform after the other; what is kept is not done again."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timezone
from pathlib import Path
from typing import Final

from mindgap.bench.measurement import Row
from mindgap.bench.side_by_side import make_rows, problem_of
from mindgap.platforms.registry import catalogue, refuse_emulated, resolve
from mindgap.records.check import PlatformResult
from mindgap.records.outcome import Outcome
from mindgap.session.session import Session

UNSEEN: Final = "not checked"
"""The verdict of a model that mindgap itself could not check."""


def ready_platforms(chosen: Sequence[str] = ()) -> dict[str, str]:
    """The version of each platform that is ready, of those that were chosen or of all whose results are observed."""
    for name in chosen:
        refuse_emulated(resolve(name), "this table")
    names = list(chosen) or [spec.name for spec in catalogue() if not spec.emulates and spec.name != "eager"]
    with Session() as session:
        return {name: probe.version for name, probe in session.platforms(names).items() if probe.available}


def check_everywhere(
    models: Mapping[str, str], platforms: Mapping[str, str], kept: Path | None, tell: Callable[[str], None]
) -> list[Row]:
    """A row per model and platform; `models` are specs by the name they have in the table, `platforms` have versions.

    A platform whose version changed is asked again. Each has a session of its own, so that its workers end with it.
    """
    rows = []
    for platform, version in platforms.items():
        work = {
            f"{name} on {platform} {version}": functools.partial(_seen, name, spec, platform, version)
            for name, spec in models.items()
        }
        rows += make_rows(work, 1, kept, tell)
    return rows


def check_together(
    models: Mapping[str, str],
    inputs: Mapping[str, Sequence[str | None]],
    platforms: Mapping[str, str],
    kept: Path | None,
    tell: Callable[[str], None],
) -> list[Row]:
    """The same rows with one check of all platforms per model: for where the reference costs more than they do.

    A model has the first of its `inputs` files that its baseline runs.
    """
    told = ", ".join(f"{platform} {version}" for platform, version in platforms.items())
    work = {
        f"{name} on {told}": functools.partial(_all_seen, name, spec, inputs.get(name, [None]), platforms)
        for name, spec in models.items()
    }
    return [row for made in make_rows(work, 1, kept, tell) for row in made["rows"]]


def _all_seen(
    name: str, spec: str, inputs: Sequence[str | None], platforms: Mapping[str, str], session: Session
) -> Row:
    rows = {platform: _row(name, platform, version) for platform, version in platforms.items()}
    try:
        for file in inputs:
            found = session.check(spec, file, list(platforms))
            if found.eager.ok:
                break
    except Exception as error:
        return {"rows": [{**row, "verdict": UNSEEN, "sentence": problem_of(error)} for row in rows.values()]}
    if not found.eager.ok:
        said = f"{found.baseline} could not run it: {found.eager.message}"
        return {"rows": [{**row, "verdict": UNSEEN, "sentence": said} for row in rows.values()]}
    return {"rows": [_judged(row, found.platforms[platform]) for platform, row in rows.items()]}


def _seen(name: str, spec: str, platform: str, version: str, session: Session) -> Row:
    """What one platform did with one model."""
    row = _row(name, platform, version)
    try:
        return _judged(row, session.check(spec, None, [platform]).platforms[platform])
    except Exception as error:
        return {**row, "verdict": UNSEEN, "sentence": problem_of(error)}


def _row(name: str, platform: str, version: str) -> Row:
    """Marked as observed: nobody has confirmed that it is the truth."""
    date = datetime.now(timezone.utc).strftime("%Y-%m-%d")
    return {"model": name, "platform": platform, "version": version, "label": "observed", "date": date}


def _judged(row: Row, found: PlatformResult) -> Row:
    verdict = found.verdict
    return {
        **row,
        "verdict": verdict.conclusion.value,
        "kind": verdict.kind and verdict.kind.value,
        "blame": verdict.blame and verdict.blame.value,
        "floors": verdict.error_over_bound,
        "sentence": verdict.sentence,
        "outcome": _did(found.outcome),
        "note": found.outcome.note,
    }


def _did(outcome: Outcome) -> str:
    return outcome.status.value if outcome.ok else f"{outcome.status.value} at {outcome.stage.value}: {outcome.message}"

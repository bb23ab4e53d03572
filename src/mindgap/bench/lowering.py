"""Lowering whole programs from remembered calls: whether it gives what torch's own path gives, and what it costs."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Sequence
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Final

from mindgap.bench.measurement import Measurement, Row, Tell
from mindgap.bench.side_by_side import make_rows
from mindgap.execution.arena import discarded
from mindgap.execution.parcel import Parcel
from mindgap.execution.pool import Pool
from mindgap.platforms.exported import LOWERING, REMEMBERED
from mindgap.platforms.registry import resolve
from mindgap.platforms.running import run
from mindgap.program.codec import encode
from mindgap.program.graph import Program
from mindgap.records.outcome import Outcome, Stage
from mindgap.records.platform import PlatformSpec
from mindgap.session.session import Session
from mindgap.variants.base import load_bases
from mindgap.variants.synthesis import Synthesis

PLATFORMS: Final = ("onnxruntime", "openvino")
WARM: Final = 1 / 3
"""The part of the programs after which costs are counted: before that, most calls are new."""
MOST_OPERATORS: Final = 1000
"""More than any program of the smoke corpus has."""
_LOWERING: Final = (Stage.EXPORT.value, Stage.CONVERT.value, Stage.COMPILE.value)


_OTHER: Final = "other bits"
_UNSTABLE: Final = "unstable"
"""Torch's own path gives other bits a second time."""
_KINDS: Final = ("same bits", "both refuse", _UNSTABLE, _OTHER, "one refuses")


def measure(
    tell: Tell,
    on: Sequence[str] = PLATFORMS,
    variants: int = 60,
    seed: int = 0,
    keep: Path | None = None,
    jobs: int = 1,
    operators: int = MOST_OPERATORS,
) -> Measurement:
    """Each program twice in one worker: by torch's own path, and from remembered calls.

    First the smoke corpus as it is, then variants of those of its programs that have at most so many `operators`.
    """
    bases = load_bases()
    small = [base for base in bases if len(base.program.nodes) <= operators]
    programs = [base.program for base in bases]
    programs += [variant.program for variant in islice(Synthesis(small, seed, invalid_share=0.0), variants)]
    todo = {
        f"{platform} {number}, seed {seed}": partial(
            _compared, resolve(platform), program, number >= WARM * len(programs)
        )
        for number, program in enumerate(programs)
        for platform in on
    }
    found = make_rows(todo, jobs, keep, lambda what: tell("lowering", what))
    others = [f"  {row['platform']} {row['program']}: {row['kind']}" for row in found if row["kind"] not in _KINDS[:2]]
    return Measurement(
        name="lowering",
        what="whole variants lowered by torch's own path and from calls that were lowered before: do both give the "
        "same bits, and how long do export, conversion and compilation take (by the clock, after the first third)",
        on=f"the {len(bases)} programs of the smoke corpus and {variants:,} variants of the {len(small)} of them "
        f"with at most {operators} operators, seed {seed}, {jobs} at once; load {os.getloadavg()[0]:.1f}",
        rows=[_summary(platform, [row for row in found if row["platform"] == platform]) for platform in on],
        conclusion="\n".join(["aim on two idle cores: 4 times as many programs per second", *others]),
    )


def _compared(spec: PlatformSpec, program: Program, counted: bool, session: Session) -> Row:
    """What became of one program both ways, and what that cost where both ran and it is counted."""
    parcel = Parcel(encode(program))
    remembered = _run(session.pool, spec, parcel, {LOWERING: REMEMBERED})
    stock = _run(session.pool, spec, parcel, {})
    kind = _kind(stock, remembered)
    if kind == _OTHER and _run(session.pool, spec, parcel, {}).digest != stock.digest:
        kind = _UNSTABLE
    row: Row = {"platform": spec.name, "program": program.name, "kind": kind}
    counts = counted and stock.ok and remembered.ok
    return row | {"stock s": _seconds(stock) * counts, "remembered s": _seconds(remembered) * counts}


def _summary(platform: str, rows: Sequence[Row]) -> Row:
    kinds = Counter(row["kind"] for row in rows)
    stock, remembered = (sum(row[name] for row in rows) for name in ("stock s", "remembered s"))
    return {
        "platform": platform,
        "programs": len(rows),
        **{kind: kinds[kind] for kind in _KINDS},
        "stock s": round(stock, 1),
        "remembered s": round(remembered, 1),
        "times": round(stock / remembered, 1) if remembered else 0.0,
    }


def _run(pool: Pool, spec: PlatformSpec, parcel: Parcel, options: dict[str, str]) -> Outcome:
    return discarded(run(pool, spec, parcel, options=options))


def _kind(stock: Outcome, remembered: Outcome) -> str:
    if stock.ok and remembered.ok:
        return "same bits" if stock.digest == remembered.digest else _OTHER
    return "one refuses" if stock.ok or remembered.ok else "both refuse"


def _seconds(outcome: Outcome) -> float:
    return sum(outcome.seconds.get(stage, 0.0) for stage in _LOWERING)

"""Lowering whole programs from remembered calls: whether it gives what torch's own path gives, and what it costs."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Final

from mindgap.bench.measurement import Measurement, Row, Tell
from mindgap.execution.arena import discarded
from mindgap.execution.parcel import Parcel
from mindgap.execution.pool import Pool
from mindgap.platforms.exported import LOWERING, REMEMBERED
from mindgap.platforms.registry import resolve
from mindgap.platforms.running import run
from mindgap.program.codec import encode
from mindgap.records.outcome import Outcome, Stage
from mindgap.records.platform import PlatformSpec
from mindgap.variants.base import load_bases
from mindgap.variants.synthesis import Synthesis

PLATFORMS: Final = ("onnxruntime", "openvino")
WARM: Final = 1 / 3
"""The part of the programs after which costs are counted: before that, most calls are new."""
_LOWERING: Final = (Stage.EXPORT.value, Stage.CONVERT.value, Stage.COMPILE.value)


@dataclass
class _Compared:
    """What became of the programs of one platform."""

    seen: Counter[str] = field(default_factory=Counter)
    stock_s: float = 0.0
    remembered_s: float = 0.0
    others: list[str] = field(default_factory=list)

    def add(self, name: str, stock: Outcome, remembered: Outcome, counted: bool) -> None:
        kind = _kind(stock, remembered)
        self.seen[kind] += 1
        if kind not in ("same bits", "both refuse"):
            self.others.append(f"{name}: {kind}")
        if counted and stock.ok and remembered.ok:
            self.stock_s += _seconds(stock)
            self.remembered_s += _seconds(remembered)

    def row(self, platform: str) -> Row:
        times = self.stock_s / self.remembered_s if self.remembered_s else 0.0
        return {
            "platform": platform,
            "programs": self.seen.total(),
            **{kind: self.seen[kind] for kind in ("same bits", "both refuse", "other bits", "one refuses")},
            "stock s": round(self.stock_s, 1),
            "remembered s": round(self.remembered_s, 1),
            "times": round(times, 1),
        }


def measure(tell: Tell, on: Sequence[str] = PLATFORMS, variants: int = 60, seed: int = 0) -> Measurement:
    """Each program twice in one worker: by torch's own path, and from remembered calls."""
    programs = [variant.program for variant in islice(Synthesis(load_bases(), seed, invalid_share=0.0), variants)]
    rows, others = [], []
    with Pool() as pool:
        for platform in on:
            found, spec = _Compared(), resolve(platform)
            for number, program in enumerate(programs):
                tell(platform, f"{number} of {variants} programs")
                parcel = Parcel(encode(program))
                remembered = _run(pool, spec, parcel, {LOWERING: REMEMBERED})
                found.add(program.name, _run(pool, spec, parcel, {}), remembered, number >= WARM * variants)
            rows.append(found.row(platform))
            others += [f"  {platform} {item}" for item in found.others]
    return Measurement(
        name="lowering",
        what="whole variants lowered by torch's own path and from calls that were lowered before: do both give the "
        "same bits, and how long do export, conversion and compilation take (by the clock, after the first third)",
        on=f"{variants} variants of the smoke corpus, seed {seed}; load {os.getloadavg()[0]:.1f}",
        rows=rows,
        conclusion="\n".join(["aim on two idle cores: 4 times as many programs per second", *others]),
    )


def _run(pool: Pool, spec: PlatformSpec, parcel: Parcel, options: dict[str, str]) -> Outcome:
    return discarded(run(pool, spec, parcel, options=options))


def _kind(stock: Outcome, remembered: Outcome) -> str:
    if stock.ok and remembered.ok:
        return "same bits" if stock.digest == remembered.digest else "other bits"
    return "one refuses" if stock.ok or remembered.ok else "both refuse"


def _seconds(outcome: Outcome) -> float:
    return sum(outcome.seconds.get(stage, 0.0) for stage in _LOWERING)

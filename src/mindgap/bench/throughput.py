"""How many programs are run and judged per second on each platform: whole variants, and fragments in crowds."""

from __future__ import annotations

import json
import tempfile
import time
from collections.abc import Sequence
from dataclasses import astuple, dataclass
from pathlib import Path
from typing import Final

from mindgap.bench.measurement import Measurement, Row, Tell, cpu_s
from mindgap.campaign.hunt import hunt
from mindgap.campaign.ledger import FRAGMENT
from mindgap.campaign.plan import Plan, with_baseline
from mindgap.campaign.progress import Snapshot
from mindgap.campaign.reader import open_ledger
from mindgap.records.outcome import Status

PLATFORMS: Final = ("onnxruntime", "openvino", "inductor")
MOST: Final = 400_000


def measure(
    tell: Tell, on: Sequence[str] = PLATFORMS, minutes: float = 5.0, seed: int = 0, warm: float = 1.0
) -> Measurement:
    """One platform after the other: whole variants as users lower them, with shortcuts, and fragments, some minutes
    each; the first `warm` minutes, in which a platform is still a stranger, are not counted by the clock."""
    rows: list[Row] = []
    for platform in on:
        stock = _rate(tell, platform, minutes, seed, 0.0, warm, shortcuts=False)
        fast = _rate(tell, platform, minutes, seed, 0.0, warm)
        small = _rate(tell, platform, minutes, seed, 1.0, warm)
        rows += [
            _row(platform, "second", stock.per_s, fast.per_s, small.per_s),
            _row(platform, "CPU second", stock.per_cpu_s, fast.per_cpu_s, small.per_cpu_s),
        ]
    return Measurement(
        name="throughput",
        what="programs that a platform ran, with their verdict, per second: whole variants as users lower them, the "
        "same from what was lowered before, and fragments in crowds. The time of refusals and confirmations counts, "
        "programs that failed do not. A structure is a fragment whose rounds count as one: they are lowered once; "
        "each round is judged for itself",
        on=f"smoke corpus, seed {seed}, {minutes:g} minutes each, next to eager, one platform at a time",
        rows=rows,
        conclusion="aim on two idle cores: fragments 20 times (onnxruntime), 10 times (openvino), 8 times (inductor) "
        "as many as whole variants by the stock path; whole variants 4 times as many (onnxruntime, openvino)",
    )


@dataclass(frozen=True, slots=True)
class Judged:
    """Programs with a verdict about a platform, or how many of them per unit of time."""

    verdicts: float = 0.0
    """All of them, also where the platform did not run the program."""
    programs: float = 0.0
    """Those that it ran; each round of a fragment is one."""
    structures: float = 0.0
    """The same with all rounds of a fragment as one; every whole variant is one."""

    def since(self, before: Judged) -> Judged:
        return Judged(*(mine - theirs for mine, theirs in zip(astuple(self), astuple(before))))

    def per(self, time_s: float) -> Judged:
        return Judged(*(count / max(1e-9, time_s) for count in astuple(self)))


@dataclass(frozen=True, slots=True)
class Rate:
    """How fast a platform was."""

    per_s: Judged = Judged()
    per_cpu_s: Judged = Judged()
    """Of all processes."""


def _row(platform: str, unit: str, stock: Judged, fast: Judged, small: Judged) -> Row:
    per = stock.programs
    return {
        "platform": platform,
        "per": unit,
        "whole, stock": round(per, 3),
        "whole, fast": round(fast.programs, 3),
        "times stock": round(fast.programs / per, 1) if per else "-",
        "structures": round(small.structures, 3),
        "structures, times stock": round(small.structures / per, 1) if per else "-",
        "rounds": round(small.programs, 2),
        "rounds, times stock": round(small.programs / per, 1) if per else "-",
        "rounds with failed ones": round(small.verdicts, 2),
    }


def _rate(
    tell: Tell, platform: str, minutes: float, seed: int, fragments: float, warm: float, shortcuts: bool = True
) -> Rate:
    """Verdicts per second, and per second of CPU time of all processes."""
    marks: list[tuple[float, Judged]] = []
    called = "fragments" if fragments else "whole variants" if shortcuts else "whole variants, stock"
    with tempfile.TemporaryDirectory() as place:
        directory = Path(place) / "campaign"

        def watch(now: Snapshot) -> None:
            tell(platform, f"{called}: {now.seconds / 60:.1f} of {minutes + warm:g} min, {now.finished} programs")
            if now.finished and (not marks or not marks[0][1].programs) and now.seconds >= 60 * warm:
                marks[:] = [(time.monotonic(), judged(directory, platform))]

        plan = Plan(with_baseline([platform]), MOST, seed, fragments=fragments, metamorphic_share=0.0)
        before = cpu_s()
        hours = (minutes + warm) / 60
        hunt(directory, plan, hours=hours, explain_s=0.0, watch=watch, shortcuts=shortcuts).unless_interrupted()
        count, used = judged(directory, platform), cpu_s() - before
    if not marks:
        return Rate()
    began, first = marks[0]
    return Rate(count.since(first).per(time.monotonic() - began), count.per(used))


def judged(directory: Path, platform: str) -> Judged:
    """What has a verdict about a platform so far."""
    with open_ledger(directory) as data:
        rows = data.execute(
            "SELECT o.status, p.id, p.kind, p.base, p.recipe FROM verdicts v JOIN programs p ON p.id = v.program "
            "JOIN outcomes o ON o.program = v.program AND o.platform = v.platform "
            "JOIN platforms f ON f.id = v.platform WHERE f.name = ?",
            (platform,),
        ).fetchall()
    ran = [_structure(*told) for status, *told in rows if status == Status.OK.value]
    return Judged(len(rows), len(ran), len(set(ran)))


def _structure(number: int, kind: str, base: int, recipe: str) -> tuple[object, ...]:
    """The same for all rounds of a fragment, which share base, seed and wish."""
    if kind != FRAGMENT:
        return (number,)
    told = json.loads(recipe)
    return (base, told["seed"], *told["focus"][:3])

"""How many programs are run and judged per second on each platform: whole variants, and fragments in crowds."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from mindgap.bench.measurement import Measurement, Row, Tell, cpu_s
from mindgap.campaign.hunt import hunt
from mindgap.campaign.plan import Plan, with_baseline
from mindgap.campaign.progress import Snapshot
from mindgap.campaign.reader import open_ledger

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
        for unit, place in (("second", 0), ("CPU second", 1)):
            per = stock[place]
            rows.append(
                {
                    "platform": platform,
                    "per": unit,
                    "whole, stock": round(per, 3),
                    "whole, fast": round(fast[place], 3),
                    "times stock": round(fast[place] / per, 1) if per else "-",
                    "fragments": round(small[place], 2),
                    "times stock whole": round(small[place] / per, 1) if per else "-",
                }
            )
    return Measurement(
        name="throughput",
        what="programs that a platform ran, with their verdict, per second: whole variants as users lower them, the "
        "same from what was lowered before, and fragments in crowds; refusals and confirmations included. All rounds "
        "of a fragment count, as each is judged for itself; they are lowered once",
        on=f"smoke corpus, seed {seed}, {minutes:g} minutes each, next to eager, one platform at a time",
        rows=rows,
        conclusion="aim on two idle cores: fragments 20 times (onnxruntime), 10 times (openvino), 8 times (inductor) "
        "as many as whole variants by the stock path; whole variants 4 times as many (onnxruntime, openvino)",
    )


def _rate(
    tell: Tell, platform: str, minutes: float, seed: int, fragments: float, warm: float, shortcuts: bool = True
) -> tuple[float, float]:
    """Verdicts per second, and per second of CPU time of all processes."""
    marks: list[tuple[float, int]] = []
    called = "fragments" if fragments else "whole variants" if shortcuts else "whole variants, stock"
    with tempfile.TemporaryDirectory() as place:
        directory = Path(place) / "campaign"

        def watch(now: Snapshot) -> None:
            tell(platform, f"{called}: {now.seconds / 60:.1f} of {minutes + warm:g} min, {now.finished} programs")
            if now.finished and (not marks or not marks[0][1]) and now.seconds >= 60 * warm:
                marks[:] = [(time.monotonic(), _judged(directory, platform))]

        plan = Plan(with_baseline([platform]), MOST, seed, fragments=fragments, metamorphic_share=0.0)
        before = cpu_s()
        hours = (minutes + warm) / 60
        hunt(directory, plan, hours=hours, explain_s=0.0, watch=watch, shortcuts=shortcuts).unless_interrupted()
        count, used = _judged(directory, platform), cpu_s() - before
    if not marks:
        return 0.0, 0.0
    began, first = marks[0]
    return (count - first) / max(1e-9, time.monotonic() - began), count / max(1e-9, used)


def _judged(directory: Path, platform: str) -> int:
    """Programs with a verdict about a platform."""
    with open_ledger(directory) as data:
        query = "SELECT COUNT(*) FROM verdicts v JOIN platforms p ON p.id = v.platform WHERE p.name = ?"
        return int(data.execute(query, (platform,)).fetchone()[0])

"""A long campaign: whether pace and memory stay what they were, and what it leaves on disk."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Final

from mindgap.bench.hunt import PLATFORMS, small_bases
from mindgap.bench.measurement import Measurement, Row, Tell
from mindgap.campaign.hunt import hunt
from mindgap.campaign.plan import Plan
from mindgap.campaign.progress import Snapshot
from mindgap.campaign.reader import Campaign
from mindgap.errors import UsageError
from mindgap.records.memory import resident_mb

MARKS: Final = "endurance.jsonl"
"""A line at the end of each part, so that a campaign in several runs is still measured as a whole."""
PARTS: Final = 10


def measure(tell: Tell, keep: Path, variants: int = 100_000, seed: int = 0) -> Measurement:
    """Run or resume a campaign of the eager pair in a directory; parts that were measured before are kept."""
    bases = small_bases()
    plan = Plan(PLATFORMS, variants, seed, corpus=tuple(f"smoke:{base.name}" for base in bases))
    keep.mkdir(parents=True, exist_ok=True)
    step = max(1, variants // PARTS)
    begun: list[tuple[float, int]] = []  # when the part began, and after how many variants

    def watch(now: Snapshot) -> None:
        tell("campaign", f"{now.finished:,} of {variants:,} variants, {now.rate:.1f}/s, {now.phase}")
        if now.phase != "run":
            return
        start, before = begun[-1] if begun else (time.monotonic(), now.finished)
        if begun and now.finished // step > before // step:
            ledger = sum(path.stat().st_size for path in keep.glob("ledger.sqlite*"))
            mark = {"variants": now.finished, "made": now.finished - before, "seconds": time.monotonic() - start,
                    "parent_mb": resident_mb(), "ledger_mb": ledger / 1e6}  # fmt: skip
            with (keep / MARKS).open("a") as file:
                file.write(json.dumps(mark) + "\n")
            start, before = time.monotonic(), now.finished
        begun[:] = [(start, before)]

    ending = hunt(keep, plan, watch=watch)
    marks = [json.loads(line) for line in (keep / MARKS).read_text().splitlines()] if (keep / MARKS).exists() else []
    if not ending.complete:
        raise UsageError(f"the campaign ended early ({ending.reason})", hint="run the same command to continue it")
    if not marks:
        raise UsageError(f"{variants} variants are too few to measure anything", hint="ask for 1,000 or more")
    return Measurement(
        name="endurance",
        what=f"one campaign of {variants:,} variants through {' and '.join(PLATFORMS)} and the float64 reference",
        on=f"{len(bases)} programs of the smoke corpus, {os.cpu_count()} cores",
        rows=[
            {
                "variants": f"{mark['variants']:,}",
                "variants/s": round(mark["made"] / mark["seconds"], 1),
                "parent MB": mark["parent_mb"],
                "ledger MB": round(mark["ledger_mb"], 1),
            }
            for mark in marks
        ],
        conclusion="\n".join(_lines(ending.campaign, marks)),
    )


def _lines(campaign: Campaign, marks: list[Row]) -> list[str]:
    rate = sum(mark["made"] for mark in marks) / sum(mark["seconds"] for mark in marks)
    divergences = sum(finding.category != "failure" for finding in campaign.findings)
    return [
        f"{campaign.variants:,} variants, {rate:.1f} per second; the parent held {marks[0]['parent_mb']} MB after the "
        f"first part and {marks[-1]['parent_mb']} MB at the end (target: flat, under 2,000); ledger "
        f"{campaign.ledger_bytes / 1e6:.0f} MB; {len(campaign.findings)} findings, {divergences} of them divergences",
        *(
            f"  {finding.id} {', '.join(finding.platforms)}: {finding.kind} at {finding.operator or finding.stage}, "
            f"{finding.variants} variants of {finding.bases} models"
            for finding in campaign.findings
        ),
    ]

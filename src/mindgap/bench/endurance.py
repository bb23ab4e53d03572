"""A long campaign: whether pace and memory stay what they were, and what it leaves on disk."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from mindgap.bench.hunt import LARGEST, PLATFORMS
from mindgap.bench.measurement import Measurement
from mindgap.campaign.hunt import hunt
from mindgap.campaign.plan import Plan
from mindgap.campaign.progress import Snapshot
from mindgap.campaign.reader import Campaign
from mindgap.errors import UsageError
from mindgap.platforms.versions import versions
from mindgap.records.memory import resident_mb
from mindgap.variants.base import load_bases

MARKS: Final = "endurance.jsonl"
PARTS: Final = 10


@dataclass(frozen=True)
class _Mark:
    """The campaign at the end of one part."""

    variants: int
    made: int
    """In this part, by this process."""
    seconds: float
    parent_mb: int
    ledger_mb: float


def measure(tell: Callable[[str, str], None], directory: Path, variants: int = 100_000, seed: int = 0) -> Measurement:
    """Run or resume a campaign of the eager pair in a directory; parts that were measured before are kept."""
    bases = [base for base in load_bases() if len(base.program.nodes) <= LARGEST]
    plan = Plan(PLATFORMS, variants, seed, corpus=tuple(f"smoke:{base.name}" for base in bases))
    directory.mkdir(parents=True, exist_ok=True)
    marks = _Marks(directory, variants)

    def watch(now: Snapshot) -> None:
        tell("campaign", f"{now.finished:,} of {variants:,} variants, {now.rate:.1f}/s, {now.phase}")
        if now.phase == "run":
            marks.note(now.finished)

    ending = hunt(directory, plan, watch=watch)
    parts = marks.all()
    if not ending.complete:
        raise UsageError(f"the campaign ended early ({ending.reason})", hint="the same command goes on with it")
    if not parts:
        raise UsageError(f"{variants} variants are over before anything can be measured", hint="ask for 1,000 or more")
    rate = sum(part.made for part in parts) / sum(part.seconds for part in parts)
    return Measurement(
        name="endurance",
        what=f"one campaign of {variants:,} variants through {' and '.join(PLATFORMS)} and the float64 reference",
        on=f"{len(bases)} programs of the smoke corpus, {os.cpu_count()} cores",
        rows=tuple(map(_row, parts)),
        conclusion="\n".join([_sentence(ending.campaign, rate, parts), *_findings(ending.campaign)]),
        versions=versions(),
    )


class _Marks:
    """A line in a file at the end of each part."""

    def __init__(self, directory: Path, variants: int) -> None:
        self._directory = directory
        self._step = max(1, variants // PARTS)
        self._begun: tuple[float, int] | None = None

    def note(self, finished: int) -> None:
        if self._begun is None:
            self._begun = time.monotonic(), finished
        start, before = self._begun
        if finished // self._step > before // self._step:
            mark = _Mark(finished, finished - before, time.monotonic() - start, resident_mb(), self._ledger_mb())
            with (self._directory / MARKS).open("a") as file:
                file.write(json.dumps(asdict(mark)) + "\n")
            self._begun = time.monotonic(), finished

    def all(self) -> list[_Mark]:
        path = self._directory / MARKS
        return [_Mark(**json.loads(line)) for line in path.read_text().splitlines()] if path.exists() else []

    def _ledger_mb(self) -> float:
        return sum(path.stat().st_size for path in self._directory.glob("ledger.sqlite*")) / 1e6


def _row(mark: _Mark) -> dict[str, Any]:
    return {
        "variants": f"{mark.variants:,}",
        "variants/s": round(mark.made / mark.seconds, 1),
        "parent MB": mark.parent_mb,
        "ledger MB": round(mark.ledger_mb, 1),
    }


def _sentence(campaign: Campaign, rate: float, marks: list[_Mark]) -> str:
    memory = f"the parent held {marks[0].parent_mb} MB after the first part and {marks[-1].parent_mb} MB at the end"
    divergences = sum(finding.category != "failure" for finding in campaign.findings)
    return (
        f"{campaign.variants:,} variants at {rate:.1f} a second; {memory} (target: flat, under 2,000); ledger "
        f"{campaign.ledger_bytes / 1e6:.0f} MB; {len(campaign.findings)} findings, {divergences} of them divergences"
    )


def _findings(campaign: Campaign) -> list[str]:
    return [
        f"  {finding.id} {', '.join(finding.platforms)}: {finding.kind} at {finding.operator or finding.stage}, "
        f"{finding.variants} variants of {finding.bases} models"
        for finding in campaign.findings
    ]

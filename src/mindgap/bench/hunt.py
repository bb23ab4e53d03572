"""How fast a campaign is: variants per second through eager, eager@scalar and the float64 reference."""

from __future__ import annotations

import contextlib
import os
import statistics
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from mindgap.bench.measurement import Measurement, Row, Tell
from mindgap.campaign.campaign_run import CampaignRun
from mindgap.campaign.ledger import Ledger
from mindgap.campaign.plan import Plan
from mindgap.campaign.progress import Snapshot
from mindgap.campaign.stream import stream_of
from mindgap.campaign.workforce import LocalWorkforce
from mindgap.execution.pool import Pool
from mindgap.execution.pulse import cpu_seconds
from mindgap.platforms.config import Config
from mindgap.platforms.registry import resolve
from mindgap.records.memory import resident_mb
from mindgap.variants.base import Base, load_bases

PLATFORMS: Final = ("eager", "eager@scalar")
LARGEST: Final = 120
"""Operators of a base: the small mix, about 60 to 70 on average."""
WARM: Final = 0.2
"""The part of the variants after which workers have started and made their weights."""


@dataclass(frozen=True)
class _Rate:
    """One campaign, measured after its workers were warm."""

    jobs: int
    seconds: float
    variants: int
    cpu_s: float
    own_s: float
    """In the platforms' own stages."""
    judging_s: float
    parent_mb: int
    ledger_bytes: int
    """Per variant."""

    @property
    def per_second(self) -> float:
        return self.variants / self.seconds

    @property
    def cpu_ms(self) -> float:
        return 1000 * self.cpu_s / self.variants

    def row(self) -> Row:
        return {
            "at once": self.jobs,
            "variants": self.variants,
            "seconds": round(self.seconds, 1),
            "variants/s": round(self.per_second, 1),
            "cpu ms/variant": round(self.cpu_ms, 1),
            "platforms s": round(self.own_s, 1),
            "judges s": round(self.judging_s, 1),
            "parent MB": self.parent_mb,
            "ledger bytes/variant": self.ledger_bytes,
        }


def measure(tell: Tell, variants: int = 400, seed: int = 0, rounds: int = 1) -> Measurement:
    """The same campaign on one core with one worker and on two with two, in turns."""
    bases = small_bases()
    names = tuple(f"smoke:{base.name}" for base in bases)
    rates = []
    for turn in range(1, rounds + 1):
        for jobs in (1, 2):
            tell("campaign", f"{variants} variants, {jobs} at once, round {turn} of {rounds}")
            with _cores(jobs):
                rates.append(_campaign(names, variants, seed, jobs))
    pairs = list(zip(rates[::2], rates[1::2]))
    one, two = sorted(pairs, key=lambda pair: pair[1].per_second)[(len(pairs) - 1) // 2]  # the median round
    nodes = sum(len(base.program.nodes) for base in bases) / len(bases)
    scaling = statistics.median(pair[1].per_second / pair[0].per_second for pair in pairs)
    outside = 1 - (one.own_s + one.judging_s) / one.seconds
    return Measurement(
        name="hunt",
        what="variants per second through synthesis, eager, eager@scalar, float64 reference, verdict and ledger, after "
        "the first fifth; `cpu` is the CPU time of all processes per variant, which depends less on other load; "
        "`outside` is the share of the wall time in which neither a platform nor a judge worked, with one worker",
        on=f"{len(bases)} programs of the smoke corpus with {nodes:.0f} operators on average, "
        f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}",
        rows=[rate.row() for rate in rates],
        conclusion=f"{two.per_second:.1f} variants/s in the median round (target: 60 on two idle cores); "
        f"{two.cpu_ms:.0f} ms of CPU time per variant, enough for {2000 / two.cpu_ms:.0f}/s on two idle cores; "
        f"{100 * outside:.0f}% outside platforms and judges (target: at most 40%); two workers on two cores are "
        f"{scaling:.2f}x as fast as one on one (target: 1.8x)",
    )


def small_bases() -> list[Base]:
    return [base for base in load_bases() if len(base.program.nodes) <= LARGEST]


def _campaign(names: tuple[str, ...], variants: int, seed: int, jobs: int) -> _Rate:
    plan = Plan(PLATFORMS, variants, seed, corpus=names, metamorphic_share=0.0)
    marks: list[tuple[float, int, float, float]] = []

    def watch(now: Snapshot) -> None:
        if now.finished >= WARM * variants and now.phase == "run" and run.flow.judges is not None:
            marks.append((time.perf_counter(), now.finished, _cpu_s(), run.flow.judges.busy_s))

    with tempfile.TemporaryDirectory() as folder, Ledger(Path(folder)) as ledger, Pool() as pool:
        workforce = LocalWorkforce(pool, plan, {name: resolve(name) for name in PLATFORMS}, jobs)
        run = CampaignRun(ledger, plan, workforce, jobs, Config())
        run.run(stream_of(plan, Path(folder), pool), None, watch)
        (start, before, used, judging), (end, after, used_at_end, judging_at_end) = marks[0], marks[-1]
        total = ledger.data.execute("SELECT SUM(seconds) FROM outcomes").fetchone()[0] or 0.0
        size = _ledger_bytes(ledger) // ledger.count()
        own = total * (after - before) / variants
        return _Rate(jobs, end - start, after - before, used_at_end - used, own, judging_at_end - judging,
                     resident_mb(), size)  # fmt: skip


def _ledger_bytes(ledger: Ledger) -> int:
    pages, size = (ledger.data.execute(f"PRAGMA {name}").fetchone()[0] for name in ("page_count", "page_size"))
    return int(pages) * int(size)


@contextlib.contextmanager
def _cores(count: int) -> Iterator[None]:
    """Only so many cores for this process and its children: a second core would help a single worker, too."""
    if not hasattr(os, "sched_setaffinity"):  # not Linux
        yield
        return
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, sorted(before)[:count])
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def _cpu_s() -> float:
    """CPU time of this process and of its workers so far, as Linux counts it: a worker is in its guardian's session."""
    mine = os.getpid()
    guardians: set[int] = set()

    def is_guardian(process: int, parent: int, session: int) -> bool:
        if parent == mine:
            guardians.add(process)
        return parent == mine

    cpu_seconds(is_guardian)
    return cpu_seconds(lambda process, parent, session: process == mine or session in guardians) or 0.0

"""How fast a campaign is: variants a second through eager, eager@scalar and the float64 reference."""

from __future__ import annotations

import contextlib
import os
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from mindgap.bench.measurement import Measurement
from mindgap.campaign.campaign_run import CampaignRun
from mindgap.campaign.ledger import FILE, Ledger
from mindgap.campaign.plan import Plan
from mindgap.campaign.progress import Snapshot
from mindgap.campaign.stream import stream_of
from mindgap.campaign.workforce import LocalWorkforce
from mindgap.execution.pool import Pool
from mindgap.execution.pulse import cpu_seconds
from mindgap.platforms.config import Config
from mindgap.platforms.registry import resolve
from mindgap.platforms.versions import versions
from mindgap.records.memory import resident_mb
from mindgap.variants.base import load_bases

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
    """For one variant."""

    @property
    def per_second(self) -> float:
        return self.variants / self.seconds


def measure(tell: Callable[[str, str], None], variants: int = 400, seed: int = 0, rounds: int = 1) -> Measurement:
    """The same campaign on one core with one worker at a time, and on all with two, in turns."""
    bases = [base for base in load_bases(None, None) if len(base.program.nodes) <= LARGEST]
    names = tuple(f"smoke:{base.name}" for base in bases)
    rates = []
    for turn in range(1, rounds + 1):
        for jobs in (1, 2):
            tell("campaign", f"{variants} variants, {jobs} at a time, round {turn} of {rounds}")
            with _cores(jobs):
                rates.append(_campaign(names, variants, seed, jobs))
    pairs = list(zip(rates[::2], rates[1::2]))
    one, two = sorted(pairs, key=lambda pair: pair[1].per_second)[(len(pairs) - 1) // 2]  # the median round
    nodes = sum(len(base.program.nodes) for base in bases) / len(bases)
    cpu_ms = 1000 * two.cpu_s / two.variants
    scaling = statistics.median(pair[1].per_second / pair[0].per_second for pair in pairs)
    outside = 1 - (one.own_s + one.judging_s) / one.seconds
    return Measurement(
        name="hunt",
        what="variants a second through synthesis, eager, eager@scalar, float64 reference, verdict and ledger, after "
        "the first fifth; `cpu` is the time of all processes for one variant, which other load changes less; "
        "`outside` is the part of the wall time in which neither a platform nor a judge was at work, one at a time",
        on=f"{len(bases)} programs of the smoke corpus with {nodes:.0f} operators on average, "
        f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}",
        rows=tuple(_row(rate) for rate in rates),
        conclusion=f"{two.per_second:.1f} variants/s in the median round (target: 60 on two idle cores); "
        f"{cpu_ms:.0f} ms of CPU time a variant, enough for {2000 / cpu_ms:.0f}/s on two idle cores; "
        f"{100 * outside:.0f}% outside platforms and judges (target: at most 40%); two workers on two cores are "
        f"{scaling:.2f} times one on one (target: 1.8)",
        versions=versions(),
    )


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
        own = total * (after - before) / variants
        return _Rate(
            jobs,
            end - start,
            after - before,
            used_at_end - used,
            own,
            judging_at_end - judging,
            resident_mb(),
            (Path(folder) / FILE).stat().st_size // ledger.count(),
        )


@contextlib.contextmanager
def _cores(count: int) -> Iterator[None]:
    """So many cores for this process and those that it starts: a second core would help a single worker, too."""
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
    """CPU time of this process and of its workers so far, as Linux counts it."""
    return cpu_seconds(lambda process, parent, session: os.getpid() in (process, parent)) or 0.0


def _row(rate: _Rate) -> dict[str, str | int | float]:
    return {
        "at a time": rate.jobs,
        "variants": rate.variants,
        "seconds": round(rate.seconds, 1),
        "variants/s": round(rate.per_second, 1),
        "cpu ms/variant": round(1000 * rate.cpu_s / rate.variants, 1),
        "platforms s": round(rate.own_s, 1),
        "judges s": round(rate.judging_s, 1),
        "parent MB": rate.parent_mb,
        "ledger bytes/variant": rate.ledger_bytes,
    }

"""A campaign from its plan to its findings: open this first."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from mindgap.campaign.conclude import conclude
from mindgap.campaign.known import Known
from mindgap.campaign.ledger import Ledger, now
from mindgap.campaign.plan import Plan
from mindgap.campaign.results import Results
from mindgap.campaign.stream import WEIGHTS, Numbering, stream_of
from mindgap.campaign.stretch import Stretch, Watch
from mindgap.campaign.summary import CampaignSummary, summarise
from mindgap.campaign.workforce import LocalWorkforce
from mindgap.errors import UsageError
from mindgap.execution.pool import Pool
from mindgap.pipeline import environment, import_paths
from mindgap.platforms.config import Config, load_config
from mindgap.platforms.registry import resolve


@dataclass(frozen=True, slots=True)
class Ending:
    """How a stretch of a campaign ended."""

    reason: str
    """`done`, `time` or `interrupted`."""
    seconds: float
    written: int
    """Variants that were judged in it."""
    summary: CampaignSummary

    @property
    def complete(self) -> bool:
        """Whether every platform ran every variant that it is due to run."""
        return self.reason == "done"


def hunt(
    directory: Path,
    plan: Plan | None = None,
    *,
    hours: float | None = None,
    jobs: int | None = None,
    config: Config | None = None,
    known: Sequence[Known] = (),
    cluster: str | None = None,
    numbering: Numbering | None = None,
    watch: Watch = lambda snapshot: None,
) -> Ending:
    """Start a campaign in a directory, or go on with the one that is there (`plan` is None).

    Ctrl-C, a time limit and a kill all leave a ledger from which the next call goes on. With `cluster`, the
    platforms are those of a Ray cluster.
    """
    with Ledger(directory, writing=True, new=plan is not None) as ledger:
        plan = _plan(ledger, plan)
        with Pool(import_paths()) as pool:
            numbers = numbering or stream_of(plan, directory, pool)
            stretch = _stretch(ledger, plan, pool, config, jobs, cluster)
            reason = stretch.run(numbers, hours, watch)
        return _ending(ledger, stretch, reason, known)


def merge(
    directory: Path,
    results: Path,
    *,
    jobs: int | None = None,
    config: Config | None = None,
    known: Sequence[Known] = (),
    numbering: Numbering | None = None,
    watch: Watch = lambda snapshot: None,
) -> Ending:
    """Take results of another machine into a campaign; verdicts are made as if all had run together."""
    with Ledger(directory, writing=True, new=False) as ledger:
        plan = ledger.plan()
        with Pool(import_paths()) as pool, Results(results, plan, pool.scratch) as given:
            numbers = numbering or stream_of(plan, directory, pool)
            ledger.add_platforms(given.platforms)
            stretch = _stretch(ledger, plan, pool, config, jobs, None)
            reason = stretch.merge(numbers, given.numbers, given.trials, watch)
        return _ending(ledger, stretch, reason, known)


def _stretch(
    ledger: Ledger, plan: Plan, pool: Pool, config: Config | None, jobs: int | None, cluster: str | None
) -> Stretch:
    settings = config or load_config(None)
    specs = {name: resolve(name, settings) for name in plan.platforms}
    count = jobs or os.cpu_count() or 1
    if cluster is None:
        return Stretch(ledger, plan, LocalWorkforce(pool, plan, specs, count), count)
    from mindgap.campaign.cluster import ClusterWorkforce

    return Stretch(ledger, plan, ClusterWorkforce(pool, plan, specs, count, cluster, ledger.directory / WEIGHTS), count)


def _ending(ledger: Ledger, stretch: Stretch, reason: str, known: Sequence[Known]) -> Ending:
    summary = summarise(ledger, conclude(ledger, known))
    return Ending(reason, stretch.seconds, stretch.writer.written, summary)


def _plan(ledger: Ledger, given: Plan | None) -> Plan:
    known = ledger.meta("plan")
    if given is None:
        return ledger.plan()
    if known is not None and Plan.from_text(known) != given:
        raise UsageError(
            f"{ledger.directory} holds a campaign with another plan",
            hint=f"go on with it: mindgap hunt --resume {ledger.directory}; or choose another directory",
        )
    ledger.set_meta(plan=given.to_text(), created=ledger.meta("created") or now(), versions=json.dumps(environment()))
    return given

"""A campaign from its plan to its findings: open this first."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Final

from mindgap.campaign.campaign_run import CampaignRun, Watch
from mindgap.campaign.known import Known
from mindgap.campaign.ledger import WEIGHTS, Ledger, now, read_ids
from mindgap.campaign.plan import Plan
from mindgap.campaign.progress import Snapshot
from mindgap.campaign.reader import Campaign, findings_of, read
from mindgap.campaign.results import Results
from mindgap.campaign.stream import Numbering, stream_of
from mindgap.campaign.triage import with_new_ids
from mindgap.campaign.workforce import LocalWorkforce, Workforce
from mindgap.errors import NoSpace, UsageError
from mindgap.execution.batches import SPACE_WAIT_S
from mindgap.execution.pool import Pool
from mindgap.platforms.config import Config, load_config
from mindgap.platforms.registry import refuse_emulated, resolve
from mindgap.platforms.versions import versions
from mindgap.records.explanation import Explanation

EXPLAIN_S: Final = 300.0
"""Time for operators and causes, in all runs of the command each."""


@dataclass(frozen=True, slots=True)
class Ending:
    """How a run of a campaign ended."""

    reason: str
    """`done`, `time` or `interrupted`."""
    seconds: float
    written: int
    """Variants that were judged in it."""
    campaign: Campaign
    changed: tuple[str, ...] = ()
    """Platforms whose version is another than in an earlier run."""

    @property
    def complete(self) -> bool:
        """Whether every platform ran every variant that it is due to run."""
        return self.reason == "done"

    def unless_interrupted(self) -> Ending:
        """For whoever goes on after the campaign: Ctrl-C was meant for the whole."""
        if self.reason == "interrupted":
            raise KeyboardInterrupt
        return self


def hunt(
    directory: Path | str,
    plan: Plan | None = None,
    *,
    variants: int | None = None,
    hours: float | None = None,
    jobs: int | None = None,
    config: Config | None = None,
    known: Sequence[Known] = (),
    cluster: str | None = None,
    explain_s: float = EXPLAIN_S,
    numbering: Numbering | None = None,
    watch: Watch = lambda snapshot: None,
    import_paths: Sequence[str] = (),
    isolated: bool = False,
    shortcuts: bool = True,
    closing: bool = False,
) -> Ending:
    """Start a campaign in a directory, or continue the one that is there (`plan` is None), with `variants` in all.

    Ctrl-C, a time limit and a kill all leave a ledger that the next call continues. With `cluster`, the
    platforms are those of a Ray cluster. Workers that are `isolated` write nowhere else and have no network. Without
    `shortcuts`, whole variants are lowered as users do it from the first run on. When it is `closing`, nothing new
    runs: what is there is held against its relations and explained.
    """
    if isolated and cluster is not None:
        raise UsageError("workers of a cluster cannot be isolated", hint="leave out --isolate or --cluster")
    directory, config = Path(directory), config or load_config(None)
    for name in plan.platforms if plan is not None else ():
        refuse_emulated(resolve(name, config), "a campaign")  # nor does a misspelt platform leave anything behind
    with Ledger(directory, new=plan is not None) as ledger:
        plan = _plan(ledger, plan, variants)
        with Pool(import_paths, config.limits, isolated) as pool:
            pool.on_pause = partial(_wait_for_space, plan, watch)
            numbers = numbering or stream_of(plan, directory, pool)
            run = _run(ledger, plan, pool, config, jobs, cluster, explain_s, known)
            run.watch, run.flow.takes_shortcuts, run.closing = watch, shortcuts, closing
            reason = run.run(numbers, hours, watch)
        return _ending(ledger, run, reason, known)


def merge(
    directory: Path,
    results: Path,
    *,
    jobs: int | None = None,
    config: Config | None = None,
    known: Sequence[Known] = (),
    explain_s: float = EXPLAIN_S,
    numbering: Numbering | None = None,
    watch: Watch = lambda snapshot: None,
) -> Ending:
    """Take results of another machine into a campaign; verdicts are made as if all had run together."""
    with Ledger(directory, new=False) as ledger:
        plan = ledger.plan()
        with Pool() as pool:
            given = Results(results, plan, pool)
            numbers = numbering or stream_of(plan, directory, pool)
            ledger.add_platforms(given.platforms)
            run = _run(ledger, plan, pool, config, jobs, None, explain_s)
            reason = run.merge(numbers, given.numbers, given.outcomes, watch)
        return _ending(ledger, run, reason, known)


def _wait_for_space(plan: Plan, watch: Watch, reason: NoSpace) -> None:
    """A full disk before anything runs costs nothing but time."""
    watch(Snapshot("start", 0.0, 0, plan.variants, 0.0, None, {}, {}, paused=str(reason)))
    time.sleep(SPACE_WAIT_S)


def keep_explanation(directory: Path, program: int, found: Explanation, identity: str) -> None:
    """Enter what `mindgap explain` found about a finding into the campaign's ledger.

    The operator that is known now may part the program from others that looked alike: the id goes with what was
    explained, and the others get one of their own.
    """
    with Ledger(directory, new=False) as ledger:
        held = [item for finding in findings_of(ledger.data) if finding.id == identity for item in finding.evidence]
        moved = [item.place for item in held if (item.program, item.platform) == (program, found.platform)]
        ledger.write_explanation(program, found, identity)
        if moved:
            ids = read_ids(ledger.data)
            ledger.write_ids(replace(ids, places={**ids.places, identity: moved[0]}))
        _give_ids(ledger)


def _run(
    ledger: Ledger,
    plan: Plan,
    pool: Pool,
    config: Config | None,
    jobs: int | None,
    cluster: str | None,
    explain_s: float,
    known: Sequence[Known] = (),
) -> CampaignRun:
    settings = config or load_config(None)
    specs = {name: resolve(name, settings) for name in plan.platforms}
    count = jobs or os.cpu_count() or 1
    ledger.begin_run(versions(specs.values()))
    workforce: Workforce = LocalWorkforce(pool, plan, specs, count)
    if cluster is not None:
        from mindgap.campaign.cluster import ClusterWorkforce

        workforce = ClusterWorkforce(pool, plan, specs, count, cluster, ledger.directory / WEIGHTS)
    return CampaignRun(ledger, plan, workforce, count, settings, explain_s, known)


def _give_ids(ledger: Ledger) -> None:
    ledger.write_ids(with_new_ids(findings_of(ledger.data), read_ids(ledger.data)))


def _ending(ledger: Ledger, run: CampaignRun, reason: str, known: Sequence[Known]) -> Ending:
    """Every finding gets an id that it keeps; then the campaign is read as anybody would read it."""
    _give_ids(ledger)
    campaign = read(ledger.directory, known)
    return Ending(reason, run.seconds, run.writer.written, campaign, tuple(run.changed))


def _widened(known: Plan, given: Plan) -> Plan | None:
    """The plan of a campaign that is given again; a sweep of operators may go on with more platforms. Else None."""
    platforms = tuple(dict.fromkeys((*known.platforms, *given.platforms)))
    if replace(known, platforms=given.platforms) != given or (known.sweep is None and known != given):
        return None
    return replace(known, platforms=platforms)


def _plan(ledger: Ledger, given: Plan | None, variants: int | None = None) -> Plan:
    known = ledger.meta("plan")
    if given is None:
        plan = ledger.plan()
        if variants is not None and variants < plan.variants:
            raise UsageError(
                f"the campaign in {ledger.directory} has {plan.variants:,} variants: it can have more, not fewer",
                hint="leave out --variants to continue it as it is",
            )
        plan = replace(plan, variants=variants or plan.variants)
        ledger.set_meta(plan=plan.to_text())
        return plan
    if known is not None and (wider := _widened(Plan.from_text(known), given)) is not None:
        given = wider
    elif known is not None:
        again = f"mindgap hunt --resume {ledger.directory}"
        if given.sweep is not None:
            again = "the same --ops, --dtype, --models and --seed"
        raise UsageError(
            f"{ledger.directory} holds a campaign with another plan",
            hint=f"continue it with {again}, or choose another directory",
        )
    ledger.set_meta(plan=given.to_text(), created=ledger.meta("created") or now())
    return given

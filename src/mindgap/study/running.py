"""A study from its plan to its tables: open this first."""

from __future__ import annotations

import resource
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Final

from mindgap.campaign.hunt import Ending, hunt
from mindgap.campaign.plan import BASELINE
from mindgap.campaign.progress import Snapshot
from mindgap.campaign.reader import Campaign, read
from mindgap.operators.sweeping import sweep, universe
from mindgap.operators.universe import models_of
from mindgap.platforms.config import Config
from mindgap.study.budget import Turn, keep_turns, next_phase, read_turns, turn_s
from mindgap.study.plan import DTYPES, MODELS, OPERATORS, PHASES, StudyPlan
from mindgap.variants.samples import sampled_operators

Watch = Callable[[str, Snapshot], None]
"""Told the phase and how far its campaign is."""
EXPLAINING: Final = 0.15
"""Of the time, at the end: relations and explanations of what was found; a quarter of each turn goes there as well."""
LOOK_S: Final = 60.0
"""What a dry run gives each phase that was never run, to measure its pace; what it does is kept."""


@dataclass
class Study:
    """One study in its directory, and what is needed to run it."""

    directory: Path
    plan: StudyPlan
    config: Config
    jobs: int | None = None
    watch: Watch = lambda phase, snapshot: None
    import_paths: Sequence[str] = ()
    phases: Sequence[str] = PHASES
    """Those that this run may work on; the plan has all."""
    turns: list[Turn] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.turns = read_turns(self.directory)

    def look(self) -> str:
        """A short turn for every phase that has had none, so that there is a pace to plan with; why it ended."""
        known = {turn.phase for turn in self.turns}
        for phase in self.phases:
            if phase not in known and self._turn(phase, LOOK_S) == "interrupted":
                return "interrupted"
        return "done"

    def run(self, hours: float) -> str:
        """Turns until the time is over or nothing is left, then explanations: `done`, `time` or `interrupted`."""
        budget_s = 3600 * hours
        until = time.monotonic() + (1 - EXPLAINING) * budget_s
        while (left := self.left) and (left_s := until - time.monotonic()) > 0:
            phase = next_phase(self.turns, left, budget_s)
            alone = len(left) == 1  # then there is nothing to weigh, and every new turn starts its workers again
            if self._turn(phase, left_s if alone else min(turn_s(budget_s), left_s)) == "interrupted":
                return "interrupted"
        if self._explain(EXPLAINING * budget_s) == "interrupted":
            return "interrupted"
        return "time" if self.left else "done"

    @property
    def left(self) -> list[str]:
        """Phases that have something left to run."""
        ended = {turn.phase for turn in self.turns if turn.ended}
        return [phase for phase in self.phases if phase not in ended]

    def _turn(self, phase: str, seconds: float) -> str:
        started, spent_s = time.monotonic(), cpu_s()
        ending = self._run(phase, seconds / 3600)
        before = max((turn.findings for turn in self.turns if turn.phase == phase), default=0)
        found = len(ending.campaign.findings)
        turn = Turn(
            phase,
            round(time.monotonic() - started, 1),
            done_by_platform(ending.campaign),
            found,
            max(0, found - before),
            ending.complete,
            round(cpu_s() - spent_s, 1),
        )
        self.turns.append(turn)
        keep_turns(self.directory, self.turns)
        return ending.reason

    def _run(self, phase: str, hours: float) -> Ending:
        place, watch = self.directory / phase, partial(self.watch, phase)
        if phase == OPERATORS:
            others = [name for name in self.plan.platforms if name != BASELINE]
            operators = universe(models_of(self.plan.directory), sampled_operators())
            return sweep(
                place, others, operators, DTYPES, corpus=self.plan.directory, seed=self.plan.seed, hours=hours,
                jobs=self.jobs, config=self.config, watch=watch, import_paths=self.import_paths,
            )  # fmt: skip
        return hunt(
            place, self.plan.campaign(phase), hours=hours, jobs=self.jobs, config=self.config,
            explain_s=3600 * hours, watch=watch, import_paths=self.import_paths,
        )  # fmt: skip

    def _explain(self, seconds: float) -> str:
        """Relations and explanations, campaign by campaign, where something is left of either."""
        until = time.monotonic() + seconds
        phases = [phase for phase in self.phases if phase != OPERATORS and (self.directory / phase).exists()]
        for place, phase in enumerate(phases):
            share_s = (until - time.monotonic()) / (len(phases) - place)
            if share_s <= 0 or not (phase in self.left or _unexplained(read(self.directory / phase))):
                continue
            ending = hunt(
                self.directory / phase, hours=share_s / 3600, jobs=self.jobs, config=self.config, explain_s=share_s,
                watch=partial(self.watch, phase), import_paths=self.import_paths, closing=True,
            )  # fmt: skip
            if ending.reason == "interrupted":
                return "interrupted"
        return "done"


def cpu_s() -> float:
    """CPU time of this process and of all that it started and that has ended: workers end with their turn."""
    spent = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(item.ru_utime + item.ru_stime for item in spent)


def done_by_platform(campaign: Campaign) -> dict[str, int]:
    """Programs that each platform has run, all its versions together."""
    found: dict[str, int] = {}
    for item in (*campaign.platforms, *campaign.fragment_platforms):
        found[item.name] = found.get(item.name, 0) + item.done
    return found


def _unexplained(campaign: Campaign) -> bool:
    """Whether somebody is wrong and nobody knows why."""
    return any(item.category != "failure" and item.explanation is None for item in campaign.findings)


def due(plan: StudyPlan, phase: str) -> int | None:
    """Programs that a phase has at most; None where only running tells."""
    if phase == OPERATORS:
        return None
    return plan.models if phase == MODELS else plan.variants

"""One variant on its way through a campaign."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field, replace

from mindgap.campaign.plan import BASELINE, eager_of
from mindgap.execution.batch import Job, Trial
from mindgap.records.variant import Provenance
from mindgap.records.verdict import Conclusion, Kind, Verdict


@dataclass(frozen=True, slots=True)
class Numbered:
    """A variant with its place in the stream, made ready to travel."""

    number: int
    fingerprint: str
    name: str
    nodes: int
    job: Job
    provenance: Provenance


@dataclass
class Case:
    """What is known of a variant so far; only the flow changes it, under the lock."""

    variant: Numbered
    trials: dict[str, Trial] = field(default_factory=dict)
    """By platform; those of an earlier stretch without their outputs."""
    fresh: set[str] = field(default_factory=set)
    """Platforms whose outcome is not in the ledger yet."""
    waiting: set[str] = field(default_factory=set)
    """Platforms that have it at the moment."""
    verdicts: dict[str, Verdict] = field(default_factory=dict)
    compiled: dict[str, Verdict] = field(default_factory=dict)
    """Compiled platforms of a device against eager of that device, where that is not the baseline itself."""
    confirmed: bool = False
    """Whether those that diverge were asked again."""
    related: bool = False
    """Whether its relations will be looked at: then its program is kept."""
    lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def baseline(self) -> Trial:
        return self.trials[BASELINE]

    def record(self, trial: Trial) -> None:
        """Note what a platform did; another answer than before means that it is unstable."""
        before = self.trials.get(trial.platform)
        if before is not None and before.ok and before.file and not trial.ok:
            trial = replace(before, stable=False, note=f"another run failed: {trial.message}")
        elif before is not None and before.ok and trial.ok and before.digest != trial.digest:
            trial = replace(trial, stable=False, digest=before.digest)  # the first answer stays on record
        if before is not None and before.file and before.file != trial.file:
            before.without_outputs()
        self.trials[trial.platform] = trial
        self.waiting.discard(trial.platform)

    def others(self) -> dict[str, Trial]:
        """All but the baseline."""
        return {name: trial for name, trial in self.trials.items() if name != BASELINE}

    def differing(self) -> list[str]:
        """Platforms that ran it as the baseline did, with other bits."""
        if not self.baseline.ok:
            return []
        return [n for n, t in self.others().items() if t.ok and t.digest != self.baseline.digest]

    def pairs(self) -> dict[str, Trial]:
        """By compiled platform: what eager of the same device did, where both are here."""
        found = {}
        for name in self.trials:
            eager = eager_of(name)
            if eager is not None and eager != BASELINE and eager in self.trials:
                same = self.trials[eager].digest == self.baseline.digest
                found[name] = self.baseline if same and self.trials[eager].ok else self.trials[eager]
        return found

    def without_outputs(self) -> list[str]:
        """Platforms whose outputs a judgement needs and that are not at hand."""
        differing = self.differing()
        needed = [BASELINE, *differing] if differing else []
        return [name for name in needed if not self.trials[name].file]

    def doubtful(self) -> list[str]:
        """Platforms to ask again before they are accused: those that diverge in values, and the baseline."""
        accused = [
            name
            for name, verdict in self.verdicts.items()
            if verdict.conclusion is Conclusion.DIVERGES and verdict.kind is not Kind.VALIDATION
        ]
        return [BASELINE, *accused] if accused else []

    def drop_outputs(self) -> None:
        self.trials = {name: trial.without_outputs() for name, trial in self.trials.items()}

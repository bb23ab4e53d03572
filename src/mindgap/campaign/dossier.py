"""One variant on its way through a campaign."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path

from mindgap.campaign.plan import BASELINE, eager_of
from mindgap.execution.arena import discarded
from mindgap.execution.parcel import Parcel
from mindgap.records.outcome import Outcome, Status
from mindgap.records.variant import Provenance
from mindgap.records.verdict import Conclusion, Kind, Verdict

Sign = tuple[str, Kind | Status | None]
"""What a fragment tells of a cause: an operator (or a structure, where none is named) and a kind of difference, or a
structure and how it died."""


@dataclass(frozen=True, slots=True)
class NumberedVariant:
    """A variant with its number in the stream, made ready to travel."""

    number: int
    fingerprint: str
    name: str
    nodes: int
    parcel: Parcel
    provenance: Provenance
    contexts: tuple[str, ...] = ()
    """Of a fragment: what it exercises."""

    @property
    def is_fragment(self) -> bool:
        return self.provenance.is_fragment


@dataclass
class Dossier:
    """What is known of a variant so far; only the flow changes it, under the lock."""

    variant: NumberedVariant
    outcomes: dict[str, Outcome] = field(default_factory=dict)
    """By platform; those of an earlier run of the campaign without their outputs."""
    fresh: set[str] = field(default_factory=set)
    """Platforms whose outcome is not in the ledger yet."""
    waiting: set[str] = field(default_factory=set)
    """Platforms that have it at the moment."""
    verdicts: dict[str, Verdict] = field(default_factory=dict)
    compiled: dict[str, Verdict] = field(default_factory=dict)
    """Compiled platforms of a device against eager of that device, where that is not the baseline itself."""
    confirmed: bool = False
    """Whether those that diverge were asked again."""
    pending: tuple[str, ...] = ()
    """Of a fragment: platforms that get it once the baseline has run it."""
    in_crowd: dict[str, str] = field(default_factory=dict)
    """By platform that is asked again alone: the digest of what it gave in a crowd."""
    crowd_only: set[str] = field(default_factory=set)
    """Platforms that diverged in a crowd and not alone."""
    operators: dict[str, str] = field(default_factory=dict)
    """By platform that diverges: the operator whose result is the first to be wrong, where a fragment tells it."""
    signs: dict[str, Sign] = field(default_factory=dict)
    """By platform that is asked again alone: the operator and the kind of difference that a crowd showed."""
    cell: str = ""
    """Of an invocation: its dtype, because each cell of a sweep is shown for itself."""
    related: bool = False
    """Whether its relations will be looked at: then its program is kept."""
    lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def baseline(self) -> Outcome:
        return self.outcomes[BASELINE]

    def record(self, outcome: Outcome) -> None:
        """Note what a platform did; another answer than before means that it is unstable."""
        before = self.outcomes.get(outcome.platform)
        if outcome.platform in self.in_crowd and before is not None:  # alone is what counts, whatever a crowd gave
            discarded(before)
            before = None
        if before is not None and before.ok and before.file and not outcome.ok:
            outcome = replace(before, stable=False, note=f"another run failed: {outcome.message}")
        elif before is not None and before.ok and outcome.ok and before.digest != outcome.digest:
            outcome = replace(outcome, stable=False, digest=before.digest)  # the first answer stays on record
        if before is not None and before.file and before.file != outcome.file:
            discarded(before)
        self.outcomes[outcome.platform] = outcome
        self.waiting.discard(outcome.platform)

    def shows_alone(self, name: str) -> bool:
        """Whether a platform that was asked again alone shows there what it showed in a crowd."""
        shown = self.signs[name][1]
        died_otherwise = isinstance(shown, Status) and self.outcomes[name].status is not shown
        return name not in self.crowd_only and not died_otherwise

    def others(self) -> dict[str, Outcome]:
        """All but the baseline."""
        return {name: outcome for name, outcome in self.outcomes.items() if name != BASELINE}

    def differing(self) -> list[str]:
        """Platforms that ran it as the baseline did, with other bits."""
        if not self.baseline.ok:
            return []
        return [n for n, o in self.others().items() if o.ok and o.digest != self.baseline.digest]

    def pairs(self) -> dict[str, Outcome]:
        """By compiled platform: what eager of the same device did, where both are here."""
        found = {}
        for name in self.outcomes:
            eager = eager_of(name)
            if eager is not None and eager != BASELINE and eager in self.outcomes:
                same = self.outcomes[eager].digest == self.baseline.digest
                found[name] = self.baseline if same and self.outcomes[eager].ok else self.outcomes[eager]
        return found

    def missing_outputs(self) -> list[str]:
        """Platforms whose outputs a judgement needs and that are not at hand."""
        differing = self.differing()
        needed = [BASELINE, *differing] if differing else []
        return [name for name in needed if not self.outcomes[name].file]

    def forget_lost(self) -> bool:
        """Note which outputs somebody removed; whether there are any."""
        lost = {n: o for n, o in self.outcomes.items() if o.file and not Path(o.file).exists()}
        self.outcomes |= {name: replace(outcome, file="", stored=()) for name, outcome in lost.items()}
        return bool(lost)

    def unmask(self, failed: Iterable[str]) -> None:
        """Note that platforms that said they ran it have no outputs: whoever judged could not read them."""
        for name in failed:
            outcome = self.outcomes[name]
            if outcome.ok:
                why = "its outputs were changed after it had answered"
                self.outcomes[name] = replace(discarded(outcome), status=Status.CRASH, message=why, digest="")

    def other_alone(self) -> set[str]:
        """Platforms that gave something else alone than in a crowd."""
        return {name for name, digest in self.in_crowd.items() if self.outcomes[name].digest != digest}

    def doubtful(self) -> list[str]:
        """Platforms to ask again before they are accused: those that diverge in values, and the baseline."""
        accused = [
            name
            for name, verdict in self.verdicts.items()
            if verdict.conclusion is Conclusion.DIVERGES and verdict.kind is not Kind.VALIDATION
        ]
        return [BASELINE, *accused] if accused else []

    def discard_outputs(self) -> None:
        self.outcomes = {name: discarded(outcome) for name, outcome in self.outcomes.items()}

"""The way of one variant: its platforms run it, those that disagree are judged, the accused are asked again."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from mindgap.campaign.dossier import Dossier
from mindgap.campaign.plan import BASELINE
from mindgap.campaign.queues import WorkQueue
from mindgap.campaign.runners import Judge, Runner
from mindgap.records.outcome import Outcome
from mindgap.records.verdict import Verdict
from mindgap.verdicts.judge import judge
from mindgap.verdicts.judging import Comparing, Judged, Question, differs
from mindgap.verdicts.steps import BRIEF


@dataclass(frozen=True, slots=True)
class Errand:
    """One variant for one platform; with two runs it also learns whether the platform agrees with itself."""

    dossier: Dossier
    runs: int


class Flow:
    """Moves dossiers from queue to queue; `finish` is told of each that needs nothing more."""

    def __init__(self, finish: Callable[[Dossier], None]) -> None:
        self.platforms: dict[str, WorkQueue[Errand]] = {}
        self.judges: WorkQueue[Dossier] | None = None
        self._finish = finish

    def start(self, dossier: Dossier, platforms: Sequence[str]) -> None:
        """Send a variant to platforms that have not run it; with none, only what is known is judged."""
        if platforms:
            self._send(dossier, platforms, runs=1)
        else:
            self._advance(dossier)

    def run_on(self, runner: Runner) -> Callable[[list[Errand]], None]:
        """What a queue's thread does with a batch."""

        def work(batch: list[Errand]) -> None:
            for runs in sorted({item.runs for item in batch}):
                chosen = [item.dossier for item in batch if item.runs == runs]
                runner.run(
                    [dossier.variant.parcel for dossier in chosen],
                    runs,
                    lambda number, outcome, chosen=chosen: self._arrived(chosen[number], outcome),  # type: ignore[misc]
                )

        return work

    def judge_with(self, judge_: Judge) -> Callable[[list[Dossier]], None]:
        def work(batch: list[Dossier]) -> None:
            pairs = [(dossier, asked) for dossier in batch for asked in compiled_questions(dossier)]
            judge_.judge([asked for _, asked in pairs], lambda n, found: pairs[n][0].compiled.update(found.verdicts))
            judge_.judge([question(dossier) for dossier in batch], lambda n, found: self._judged(batch[n], found))

        return work

    def _send(self, dossier: Dossier, platforms: Sequence[str], runs: int) -> None:
        with dossier.lock:
            dossier.waiting = set(platforms)
        for name in platforms:
            self.platforms[name].put(Errand(dossier, runs))

    def _arrived(self, dossier: Dossier, outcome: Outcome) -> None:
        with dossier.lock:
            dossier.record(outcome)
            complete = not dossier.waiting
        if complete:
            self._advance(dossier)

    def _advance(self, dossier: Dossier) -> None:
        """All platforms that had the variant have answered."""
        missing = [name for name in dossier.missing_outputs() if name in self.platforms]
        if missing:
            self._send(dossier, missing, runs=1)
        elif dossier.differing() and (not dossier.verdicts or _unstable(dossier)):
            assert self.judges is not None
            self.judges.put(dossier)
        else:
            self._conclude(dossier)

    def _judged(self, dossier: Dossier, found: Judged) -> None:
        dossier.verdicts = found.verdicts
        doubtful = [] if dossier.confirmed else [name for name in dossier.doubtful() if name in self.platforms]
        dossier.confirmed = True
        if doubtful:
            self._send(dossier, doubtful, runs=2)
        else:
            self._conclude(dossier)

    def _conclude(self, dossier: Dossier) -> None:
        settled = {*dossier.verdicts, *dossier.differing()}  # outputs of a merged platform are gone: its verdict stays
        plain = [outcome for name, outcome in dossier.others().items() if name not in settled]
        dossier.verdicts |= verdicts_without_outputs(dossier.baseline, plain)
        for name, eager in dossier.pairs().items():
            if name not in dossier.compiled and not differs(eager, dossier.outcomes[name]):
                dossier.compiled |= verdicts_without_outputs(eager, [dossier.outcomes[name]])
        dossier.discard_outputs()
        self._finish(dossier)


def question(dossier: Dossier) -> Question:
    """Who is wrong, among those that do not give the baseline's bits?"""
    candidates = tuple(dossier.outcomes[name] for name in sorted(dossier.differing()) if dossier.outcomes[name].file)
    return Question(dossier.variant.parcel, (Comparing(dossier.baseline, candidates),), BRIEF)


def compiled_questions(dossier: Dossier) -> list[Question]:
    """Compiled platforms that do not give the bits of eager on their own device."""
    return [
        Question(dossier.variant.parcel, (Comparing(eager, (dossier.outcomes[name],)),), BRIEF)
        for name, eager in dossier.pairs().items()
        if differs(eager, dossier.outcomes[name]) and eager.file and dossier.outcomes[name].file
    ]


def verdicts_without_outputs(baseline: Outcome, outcomes: Sequence[Outcome]) -> dict[str, Verdict]:
    """Verdicts that need no numbers: the same bits, or somebody did not run it."""
    known = [replace(outcome, file="", stored=()) for outcome in (baseline, *outcomes)]
    return {name: found.verdict for name, found in judge(known[0], known[1:], None).items()}


def _unstable(dossier: Dossier) -> bool:
    """Whether asking again gave another answer than the one that was judged."""
    asked = [dossier.outcomes[name] for name in (BASELINE, *dossier.verdicts)]
    return any(outcome.stable is False for outcome in asked)

"""The way of one variant: its platforms run it, those that disagree are judged, the accused are asked again."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from mindgap.campaign.case import Case
from mindgap.campaign.lanes import Lane
from mindgap.campaign.plan import BASELINE
from mindgap.campaign.runners import LocalJudge, Runner
from mindgap.execution.batch import Question, Trial
from mindgap.records.verdict import Verdict
from mindgap.verdicts.judge import judge


@dataclass(frozen=True, slots=True)
class Run:
    """One case for one platform; with two runs it also learns whether the platform agrees with itself."""

    case: Case
    runs: int


class Flow:
    """Moves cases from lane to lane; `finish` is told of each that needs nothing more."""

    def __init__(self, finish: Callable[[Case], None]) -> None:
        self.platforms: dict[str, Lane[Run]] = {}
        self.judges: Lane[Case] | None = None
        self._finish = finish

    def start(self, case: Case, platforms: Sequence[str]) -> None:
        """Send a case to platforms that have not run it; with none, only what is known is judged."""
        if platforms:
            self._send(case, platforms, runs=1)
        else:
            self._advance(case)

    def run_on(self, platform: str, runner: Runner) -> Callable[[list[Run]], None]:
        """What a lane's thread does with a batch."""

        def work(batch: list[Run]) -> None:
            for runs in sorted({item.runs for item in batch}):
                chosen = [item.case for item in batch if item.runs == runs]
                runner.run(
                    [case.variant.job for case in chosen],
                    runs,
                    lambda number, trial, cases=chosen: self._arrived(cases[number], trial),  # type: ignore[misc]
                )

        return work

    def judge_with(self, judge_: LocalJudge) -> Callable[[list[Case]], None]:
        def work(batch: list[Case]) -> None:
            pairs = [(case, asked) for case in batch for asked in compiled_questions(case)]
            judge_.judge([asked for _, asked in pairs], lambda n, found: pairs[n][0].compiled.update(found))
            judge_.judge([question(case) for case in batch], lambda n, found: self._judged(batch[n], found))

        return work

    def _send(self, case: Case, platforms: Sequence[str], runs: int) -> None:
        with case.lock:
            case.waiting = set(platforms)
        for name in platforms:
            self.platforms[name].put(Run(case, runs))

    def _arrived(self, case: Case, trial: Trial) -> None:
        with case.lock:
            case.record(trial)
            complete = not case.waiting
        if complete:
            self._advance(case)

    def _advance(self, case: Case) -> None:
        """All platforms that had the case have answered."""
        missing = [name for name in case.without_outputs() if name in self.platforms]
        if missing:
            self._send(case, missing, runs=1)
        elif case.differing() and (not case.verdicts or _unstable(case)):
            assert self.judges is not None
            self.judges.put(case)
        else:
            self._conclude(case)

    def _judged(self, case: Case, verdicts: dict[str, Verdict]) -> None:
        case.verdicts = verdicts
        doubtful = [] if case.confirmed else [name for name in case.doubtful() if name in self.platforms]
        case.confirmed = True
        if doubtful:
            self._send(case, doubtful, runs=2)
        else:
            self._conclude(case)

    def _conclude(self, case: Case) -> None:
        settled = {*case.verdicts, *case.differing()}  # outputs of a merged platform are not kept: its verdict stays
        plain = [trial for name, trial in case.others().items() if name not in settled]
        case.verdicts |= without_outputs(case.baseline, plain)
        for name, eager in case.pairs().items():
            if name not in case.compiled and not _differ(eager, case.trials[name]):
                case.compiled |= without_outputs(eager, [case.trials[name]])
        case.drop_outputs()
        self._finish(case)


def question(case: Case) -> Question:
    """Who is wrong, among those that do not give the baseline's bits?"""
    candidates = tuple(case.trials[name] for name in sorted(case.differing()) if case.trials[name].file)
    return Question(case.variant.job, case.baseline, candidates)


def compiled_questions(case: Case) -> list[Question]:
    """Compiled platforms that do not give the bits of eager on their own device."""
    return [
        Question(case.variant.job, eager, (case.trials[name],))
        for name, eager in case.pairs().items()
        if _differ(eager, case.trials[name]) and eager.file and case.trials[name].file
    ]


def _differ(eager: Trial, compiled: Trial) -> bool:
    return eager.ok and compiled.ok and eager.digest != compiled.digest


def without_outputs(baseline: Trial, trials: Sequence[Trial]) -> dict[str, Verdict]:
    """Verdicts that need no numbers: the same bits, or somebody did not run it."""
    outcomes = [replace(trial, file="", outputs=()).outcome() for trial in (baseline, *trials)]
    return {name: found.verdict for name, found in judge(outcomes[0], outcomes[1:], None).items()}


def _unstable(case: Case) -> bool:
    """Whether asking again gave another answer than the one that was judged."""
    asked = [case.trials[name] for name in (BASELINE, *case.verdicts)]
    return any(trial.stable is False for trial in asked)

"""Running and judging in workers of this machine."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from typing import Protocol

from mindgap.campaign.plan import BASELINE
from mindgap.errors import NoSpace
from mindgap.execution.batches import BatchWorker
from mindgap.execution.parcel import Parcel
from mindgap.execution.pool import Pool
from mindgap.execution.process import Death
from mindgap.platforms.running import RunCases, believed, died, run_cases
from mindgap.records.outcome import Outcome, Status
from mindgap.records.platform import PlatformSpec
from mindgap.verdicts.judging import Judged, Question, judge_cases, unjudged
from mindgap.verdicts.judging import believed as answered

Stopped = Callable[[], bool]
OnPause = Callable[[NoSpace], None]


class Runner(Protocol):
    """Runs cases on one platform, wherever that is."""

    def run(
        self, cases: Sequence[Parcel], runs: int, done: Callable[[int, Outcome], None], cheaper: bool = False
    ) -> None:
        """Every case is done when this returns, unless the campaign was stopped.

        `cheaper`: by a shortcut where the platform has one; what shows then must be confirmed without it.
        """


class LocalRunner:
    """A platform in a worker process of this machine."""

    sure_of: Collection[Status] = ()
    """Ways to die that need no second look."""

    def __init__(self, pool: Pool, spec: PlatformSpec, stopped: Stopped, on_pause: OnPause) -> None:
        self._pool = pool
        self._spec = spec
        self._worker = BatchWorker(
            pool, spec, run_cases, stopped=stopped, on_pause=on_pause, shares_files=False, sure_of=self.sure_of
        )

    def run(
        self, cases: Sequence[Parcel], runs: int, done: Callable[[int, Outcome], None], cheaper: bool = False
    ) -> None:
        files = [self._pool.scratch.new_file("outputs", self._spec.worker_name) for _ in cases]

        def request(numbers: Sequence[int]) -> RunCases:
            chosen, into = tuple(cases[n] for n in numbers), tuple(str(files[n]) for n in numbers)
            return RunCases(chosen, into, runs, cheaper=cheaper)

        def accept(number: int, outcome: Outcome, alone: bool) -> bool:
            outcome = believed(outcome, self._spec, files[number])
            if outcome.status is Status.OOM and not alone:  # others may have eaten the memory
                return False
            done(number, replace(outcome, is_local_eager=self._spec.name == BASELINE))
            return True

        def on_death(number: int, death: Death) -> None:
            files[number].unlink(missing_ok=True)
            done(number, died(self._spec.name, death))

        self._worker.work(len(cases), request, accept, on_death)


class Judge:
    """Verdicts, made in a worker that reads the outputs of all platforms."""

    def __init__(self, pool: Pool, spec: PlatformSpec, stopped: Stopped, on_pause: OnPause) -> None:
        self._worker = BatchWorker(pool, spec, judge_cases, stopped=stopped, on_pause=on_pause)

    def judge(self, questions: Sequence[Question], done: Callable[[int, Judged], None]) -> None:
        def accept(number: int, found: Judged, alone: bool) -> bool:
            done(number, answered(questions[number], found))
            return True

        def on_death(number: int, death: Death) -> None:
            done(number, unjudged(questions[number], f"the float64 reference could not be made: {death.message}"))

        self._worker.work(len(questions), lambda chosen: tuple(questions[n] for n in chosen), accept, on_death)


def limited(spec: PlatformSpec, timeout_s: float) -> PlatformSpec:
    """With a campaign's time limit; waiting for a loaded machine may take longer than computing."""
    limits = spec.limits
    wall_s = min(3 * timeout_s, limits.wall_s)
    return replace(spec, limits=replace(limits, cpu_s=min(timeout_s, limits.cpu_s), wall_s=wall_s))

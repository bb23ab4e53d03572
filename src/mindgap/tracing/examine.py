"""Running a case on eager and on the platform, and judging what they gave."""

from __future__ import annotations

import contextlib
import math
import re
import threading
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from mindgap.errors import MindgapError
from mindgap.execution.arena import discarded, opened
from mindgap.execution.parcel import Parcel, make_parcel
from mindgap.execution.pool import HOST, Pool
from mindgap.platforms.running import run, run_here
from mindgap.program.case import Case
from mindgap.records.outcome import Outcome
from mindgap.records.platform import PlatformSpec
from mindgap.records.verdict import Blame, Conclusion, Kind, Verdict
from mindgap.verdicts.comparison import Comparison
from mindgap.verdicts.judging import Comparing, Question, ask_judge
from mindgap.verdicts.steps import ALL_RUNS, Step

VALUES: Final = frozenset({Kind.VALUE, Kind.NONFINITE, Kind.INTEGER, Kind.ORDER, Kind.SIGNED_ZERO})
"""Kinds that one fault may show itself as, depending on the operators after it."""
AGAIN_S: Final = 0.2
"""A worker that was ended is asked again by whoever waits for it; so it is ended until nobody waits any more."""


class OutOfTime(MindgapError):
    """The time for an examination is over: whoever asked says what it knows so far."""


@dataclass(frozen=True, slots=True)
class Symptom:
    """What makes two differences the same finding."""

    conclusion: Conclusion
    kind: Kind | None = None
    blame: Blame | None = None
    failure: str = ""
    """Status, stage and words of a platform that did not run; numbers and names apart."""
    eager_runs: bool = True
    candidate_runs: bool = True

    def fits(self, other: Symptom, exactly: bool = True) -> bool:
        """Whether the other is the same finding; when operators after it were cut away, another kind of wrong
        value may show."""
        if exactly or self.kind not in VALUES:
            return self == other
        same = self.conclusion is other.conclusion and other.kind in VALUES
        return same and (self.blame is other.blame or Blame.BOTH in (self.blame, other.blame))


@dataclass(frozen=True)
class Examination:
    """What eager and the platform did with one case, and what we conclude."""

    eager: Outcome
    candidate: Outcome
    verdict: Verdict
    comparisons: Mapping[str, Comparison] = field(default_factory=dict)
    """By output, where both ran and did not give the same bits."""
    rules: Mapping[str, str] = field(default_factory=dict)
    """Rules of unspecified behaviour that a call fell under, and the operator."""
    spread: float = 0.0
    """The most that rounding noise moved a result."""
    is_surveyed: bool = False

    @property
    def symptom(self) -> Symptom | None:
        """What is wrong, or None when nothing is that we would call wrong."""
        verdict = self.verdict
        nobody_ran = not (self.eager.ok or self.candidate.ok)
        if nobody_ran or verdict.conclusion not in (Conclusion.DIVERGES, Conclusion.FAILED):
            return None
        failure = _failure(self.eager, self.candidate)
        return Symptom(verdict.conclusion, verdict.kind, verdict.blame, failure, self.eager.ok, self.candidate.ok)

    @property
    def both_ran(self) -> bool:
        return self.eager.ok and self.candidate.ok


class Examiner:
    """Asks one platform again and again, next to eager."""

    def __init__(self, pool: Pool, baseline: PlatformSpec, platform: PlatformSpec, judge: PlatformSpec = HOST) -> None:
        self.pool = pool
        self.baseline = baseline
        self.platform = platform
        self.judge = judge
        self.trials = 0
        self.executed = 0
        """Operators that were executed, those of noise runs and of the float64 run included."""
        self.until = math.inf
        """On the monotonic clock: later nothing is examined, and what is under way is ended."""

    def examine(
        self,
        case: Case,
        runs: int = 1,
        noise_runs: int = ALL_RUNS,
        options: Mapping[str, Any] | None = None,
        platform: PlatformSpec | None = None,
    ) -> Examination:
        """Both run it; the float64 reference and the noise floor are made only when their bits differ.

        `options` hold for this run only; `platform` is asked instead of the examiner's own.
        """
        self.trials += 1
        path = self.pool.scratch.new_file("case")
        parcel = make_parcel(case, path)
        try:
            eager = self._run(self.baseline, parcel, runs)
            candidate = self._next(eager, platform or self.platform, parcel, runs, options)
            found = self._conclude(parcel, eager, candidate, noise_runs)
            surveyed = (noise_runs + 2) if found.is_surveyed else 0
            self.executed += (2 * runs + surveyed) * (len(case.program.nodes) if case.program else case.nodes)
            return found
        finally:
            path.unlink(missing_ok=True)

    def shows(self, case: Case, symptom: Symptom, exactly: bool = True) -> Examination | None:
        """The examination when the case shows this symptom; stops at the first sign that it does not."""
        self.trials += 1
        path = self.pool.scratch.new_file("case")
        parcel = make_parcel(case, path)
        try:
            eager = self._run(self.baseline, parcel)
            if eager.ok is not symptom.eager_runs:
                discarded(eager)
                return None
            candidate = self._next(eager, self.platform, parcel)
            if candidate.ok is not symptom.candidate_runs:
                discarded(eager), discarded(candidate)
                return None
            found = self._conclude(parcel, eager, candidate)
            return found if found.symptom is not None and symptom.fits(found.symptom, exactly) else None
        finally:
            path.unlink(missing_ok=True)

    def run(self, spec: PlatformSpec, case: Case) -> Outcome:
        """What one platform does with it; the outputs are in memory."""
        self.executed += len(case.graph.nodes)
        with self._in_time(spec):
            return run_here(self.pool, spec, case)

    def fresh(self) -> None:
        """End the platform's worker: the next examination meets a new process."""
        self.pool.retire(self.platform)

    def _run(
        self, spec: PlatformSpec, parcel: Parcel, runs: int = 1, options: Mapping[str, Any] | None = None
    ) -> Outcome:
        with self._in_time(spec):
            return run(self.pool, spec, parcel, runs, options=options or {})

    def _next(
        self,
        eager: Outcome,
        spec: PlatformSpec,
        parcel: Parcel,
        runs: int = 1,
        options: Mapping[str, Any] | None = None,
    ) -> Outcome:
        """The candidate's turn; what eager gave is thrown away when there is no time for it."""
        try:
            return self._run(spec, parcel, runs, options)
        except OutOfTime:
            discarded(eager)
            raise

    @contextlib.contextmanager
    def _in_time(self, spec: PlatformSpec) -> Iterator[None]:
        """Ends the worker that is asked when the time is over."""
        left = self.until - time.monotonic()
        if left <= 0:
            raise OutOfTime("the time is over")
        done = threading.Event()

        def watch() -> None:
            if not done.wait(left):
                while not done.wait(AGAIN_S):
                    self.pool.interrupt(spec)

        if math.isfinite(left):
            threading.Thread(target=watch, name="budget", daemon=True).start()
        try:
            yield
        finally:
            done.set()
        if time.monotonic() > self.until + AGAIN_S:  # what came back may be the end of a worker
            raise OutOfTime("the time is over")

    def _conclude(self, parcel: Parcel, eager: Outcome, candidate: Outcome, noise_runs: int = ALL_RUNS) -> Examination:
        eager = replace(eager, is_local_eager=self.baseline.name == "eager" or bool(parcel.model_file))
        question = Question(parcel, (Comparing(eager, (candidate,)),), (Step(noise_runs),), refusal_agrees=True)
        try:
            with self._in_time(self.judge):
                found = ask_judge(self.pool, question, self.judge)
            judged = found.judgements[candidate.platform]
            comparisons = {item.output: item for item in judged.comparisons if found.is_surveyed}
            eager, candidate = discarded(opened(eager)), discarded(opened(candidate))
        finally:
            discarded(eager), discarded(candidate)
        return Examination(eager, candidate, judged.verdict, comparisons, found.rules, found.spread, found.is_surveyed)


def _failure(eager: Outcome, candidate: Outcome) -> str:
    """The failure in words that stay the same when shapes and names change."""
    parts = []
    for outcome in (eager, candidate):
        if not outcome.ok:
            line = outcome.message.strip().splitlines()[0] if outcome.message.strip() else ""
            words = " ".join(re.findall(r"[A-Za-z]{3,}", line)[:6])
            parts.append(f"{outcome.status.value} at {outcome.stage.value}: {words}")
    return "; ".join(parts)

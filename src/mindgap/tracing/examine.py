"""Running a witness on eager and on the platform, and judging what they gave."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from mindgap.execution.pool import Pool
from mindgap.execution.process import Death
from mindgap.execution.subject import Subject
from mindgap.records.outcome import Outcome
from mindgap.records.platform import PlatformSpec
from mindgap.records.tensors import same_outputs
from mindgap.records.verdict import Blame, Conclusion, Kind, Verdict
from mindgap.tracing.witness import Witness
from mindgap.verdicts.comparison import Comparison
from mindgap.verdicts.judge import judge
from mindgap.verdicts.steps import ALL_RUNS
from mindgap.verdicts.survey import Survey

VALUES: Final = frozenset({Kind.VALUE, Kind.NONFINITE, Kind.INTEGER, Kind.ORDER, Kind.SIGNED_ZERO})
"""Kinds that one fault may show itself as, depending on the operators after it."""


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
    """What eager and the platform did with one witness, and what we conclude."""

    eager: Outcome
    candidate: Outcome
    verdict: Verdict
    survey: Survey | None = None
    comparisons: Mapping[str, Comparison] = field(default_factory=dict)
    """By output, where both ran and did not give the same bits."""

    @property
    def symptom(self) -> Symptom | None:
        """What is wrong, or None when nothing is that we would call wrong."""
        verdict = self.verdict
        if verdict.conclusion not in (Conclusion.DIVERGES, Conclusion.FAILED):
            return None
        failure = _failure(self.eager, self.candidate)
        return Symptom(verdict.conclusion, verdict.kind, verdict.blame, failure, self.eager.ok, self.candidate.ok)


class Examiner:
    """Asks one platform again and again, next to eager."""

    def __init__(self, pool: Pool, baseline: PlatformSpec, platform: PlatformSpec) -> None:
        self.pool = pool
        self.baseline = baseline
        self.platform = platform
        self.trials = 0
        self.executed = 0
        """Operators that were executed, those of noise runs and of the float64 run included."""

    def examine(self, witness: Witness, runs: int = 1, noise_runs: int = ALL_RUNS) -> Examination:
        """Both run it; the float64 reference and the noise floor are made only when their bits differ."""
        self.trials += 1
        path = self.pool.scratch.new_file("witness")
        subject = witness.subject(path)
        try:
            eager = self.pool.run(self.baseline, subject, program_only=True, runs=runs)
            candidate = self.pool.run(self.platform, subject, program_only=True, runs=runs)
            found = self._conclude(subject, eager, candidate, noise_runs)
            surveyed = (noise_runs + 2) if found.survey is not None else 0
            self.executed += (2 * runs + surveyed) * len(witness.program.nodes)
            return found
        finally:
            path.unlink(missing_ok=True)

    def shows(self, witness: Witness, symptom: Symptom, exactly: bool = True) -> Examination | None:
        """The examination when the witness shows this symptom; stops at the first sign that it does not."""
        self.trials += 1
        path = self.pool.scratch.new_file("witness")
        subject = witness.subject(path)
        try:
            eager = self.pool.run(self.baseline, subject, program_only=True, runs=1)
            if eager.ok is not symptom.eager_runs:
                return None
            candidate = self.pool.run(self.platform, subject, program_only=True, runs=1)
            if candidate.ok is not symptom.candidate_runs:
                return None
            found = self._conclude(subject, eager, candidate)
            return found if found.symptom is not None and symptom.fits(found.symptom, exactly) else None
        finally:
            path.unlink(missing_ok=True)

    def run(self, spec: PlatformSpec, witness: Witness) -> Outcome:
        """What one platform does with it."""
        self.executed += len(witness.program.nodes)
        path = self.pool.scratch.new_file("witness")
        try:
            return self.pool.run(spec, witness.subject(path), program_only=True, runs=1)
        finally:
            path.unlink(missing_ok=True)

    def fresh(self) -> None:
        """End the platform's worker: the next examination meets a new process."""
        self.pool.retire(self.platform)

    def _conclude(
        self, subject: Subject, eager: Outcome, candidate: Outcome, noise_runs: int = ALL_RUNS
    ) -> Examination:
        survey = None
        both = eager.ok and candidate.ok
        if both and not same_outputs(eager.outputs, candidate.outputs):
            found = self.pool.survey(subject, noise_runs)
            survey = None if isinstance(found, Death) else Survey.from_message(*found)
        judged = judge(eager, [candidate], survey)[candidate.platform]
        known = survey is not None and not survey.problem
        comparisons = {item.output: item for item in judged.comparisons if known}
        return Examination(eager, candidate, judged.verdict, survey, comparisons)


def _failure(eager: Outcome, candidate: Outcome) -> str:
    """The failure in words that stay the same when shapes and names change."""
    parts = []
    for outcome in (eager, candidate):
        if not outcome.ok:
            line = outcome.message.strip().splitlines()[0] if outcome.message.strip() else ""
            words = " ".join(re.findall(r"[A-Za-z]{3,}", line)[:6])
            parts.append(f"{outcome.status.value} at {outcome.stage.value}: {words}")
    return "; ".join(parts)

"""Running and judging in workers of this machine."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from typing import Any, Protocol

from mindgap.campaign.plan import BASELINE
from mindgap.execution.batch import Job, Question, Trial, verdict_from
from mindgap.execution.careful import Careful
from mindgap.execution.pool import Pool
from mindgap.execution.process import Death
from mindgap.records.outcome import Status
from mindgap.records.platform import PlatformSpec
from mindgap.records.verdict import Conclusion, Verdict


class Runner(Protocol):
    """Runs programs on one platform, wherever that is."""

    def run(self, jobs: Sequence[Job], runs: int, done: Callable[[int, Trial], None]) -> None:
        """Every job is done when this returns, unless the campaign was stopped."""


class LocalRunner:
    """A platform in a worker process of this machine."""

    def __init__(self, pool: Pool, platform: str, careful: Careful) -> None:
        self._pool = pool
        self._platform = platform
        self._careful = careful

    def run(self, jobs: Sequence[Job], runs: int, done: Callable[[int, Trial], None]) -> None:
        files = [self._pool.scratch.new_file("outputs") for _ in jobs]

        def request(numbers: Sequence[int]) -> dict[str, Any]:
            for number in numbers:
                files[number].unlink(missing_ok=True)  # a worker may have died while it wrote
            return {
                "do": "batch",
                "jobs": [asdict(jobs[number]) for number in numbers],
                "files": [str(files[number]) for number in numbers],
                "runs": runs,
            }

        def accept(number: int, result: dict[str, Any], alone: bool) -> bool:
            here = self._platform == BASELINE
            trial = Trial.from_message({"platform": self._platform, "here": here, **result})
            if trial.status is Status.OOM and not alone:  # others may have eaten the memory
                return False
            done(number, trial)
            return True

        def died(number: int, death: Death) -> None:
            files[number].unlink(missing_ok=True)
            done(number, Trial.died(self._platform, death))

        self._careful.work(len(jobs), request, accept, died)


class LocalJudge:
    """Verdicts, made in a worker that maps the outputs of all platforms."""

    def __init__(self, careful: Careful) -> None:
        self._careful = careful

    def judge(self, questions: Sequence[Question], done: Callable[[int, dict[str, Verdict]], None]) -> None:
        def request(numbers: Sequence[int]) -> dict[str, Any]:
            chosen = [questions[number].to_message() for number in numbers]
            return {"do": "judge", "questions": chosen}

        def accept(number: int, result: list[dict[str, Any]], alone: bool) -> bool:
            done(number, {row["platform"]: verdict_from(row) for row in result})
            return True

        def died(number: int, death: Death) -> None:
            text = f"the float64 reference could not be made: {death.message}"
            names = [trial.platform for trial in questions[number].candidates]
            done(number, {name: Verdict(name, Conclusion.UNJUDGED, text) for name in names})

        self._careful.work(len(questions), request, accept, died)


def limited(spec: PlatformSpec, timeout_s: float) -> PlatformSpec:
    """With a campaign's time limit; waiting for a loaded machine may take longer than computing."""
    limits = spec.limits
    wall_s = min(3 * timeout_s, limits.wall_s)
    return replace(spec, limits=replace(limits, cpu_s=min(timeout_s, limits.cpu_s), wall_s=wall_s))

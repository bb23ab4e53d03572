"""The flow of an explanation as one readable function: confirm, trace, reduce, prove, find the cause, write it up."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

from mindgap.errors import PlatformUnavailable, UsageError
from mindgap.execution.pool import HOST, Pool
from mindgap.explanation.issue import issue_text
from mindgap.explanation.reproducer import write_reproducer
from mindgap.platforms.config import Config
from mindgap.platforms.probing import require
from mindgap.platforms.registry import resolve
from mindgap.platforms.versions import versions
from mindgap.program.case import Case
from mindgap.records.explanation import Explanation, Proof, Script
from mindgap.records.files import write_whole
from mindgap.records.platform import PlatformSpec
from mindgap.records.verdict import Conclusion
from mindgap.reduction.asking import Asker
from mindgap.reduction.journal import Journal
from mindgap.reduction.reducer import Budget, Reduction, reduce
from mindgap.tracing.capture import capture
from mindgap.tracing.cause import find_cause
from mindgap.tracing.examine import Examination, Examiner, Symptom
from mindgap.tracing.extract import extract, is_access
from mindgap.tracing.ladder import climb
from mindgap.tracing.trace import Trace, trace
from mindgap.verdicts.unspecified import RULES

JOURNAL: Final = "journal"
PROOF_RUNS: Final = 5
"""How often the smallest witness runs in the fresh process."""
ISSUE: Final = "issue.md"
DONE: Final = "done"

Progress = Callable[[str, str], None]
"""Told who is doing what; at last DONE."""


class NothingToExplain(UsageError):
    """The platform does not differ, or not by more than rounding or unspecified behaviour explains."""


def explain_case(
    pool: Pool,
    name: str,
    witness: Case,
    spec: PlatformSpec,
    config: Config,
    folder: Path,
    budget: Budget = Budget(),  # noqa: B008 - frozen
    tell: Progress = lambda who, what: None,
    baseline: PlatformSpec | None = None,
    judge: PlatformSpec = HOST,
    trace_s: float = math.inf,
) -> Explanation:
    """Why a case gives another result on one platform; repro.py, issue.md and their data go to a folder.

    After `trace_s` no search for operators that are wrong only together begins.
    """
    clock = _Clock(tell)
    version = _version(pool, spec)
    examiner = Examiner(pool, baseline or resolve("eager", config), spec, judge)
    made_with = versions([spec])
    folder.mkdir(parents=True, exist_ok=True)

    clock.enter("confirm", spec.name)
    whole, symptom = confirm(examiner, witness)

    clock.enter("trace", spec.name)
    path = trace(examiner, witness, symptom, lambda what: tell("trace", what), time.monotonic() + trace_s)

    clock.enter("reduce", spec.name)
    start, symptom = begin(examiner, witness, path, symptom)
    journal = Journal(folder / JOURNAL, f"{start.key} {spec.name} {version} torch {made_with['torch']}")
    asker = Asker(examiner, symptom, journal)
    reduction = reduce(start, asker, asker.values, budget, tell=lambda what: tell("reduce", what))

    clock.enter("prove", "in a fresh process")
    examiner.fresh()
    proof = examiner.examine(reduction.witness, runs=PROOF_RUNS)
    survived = proof.symptom is not None and asker.symptom.fits(proof.symptom)

    clock.enter("cause", "experiments")
    layer = climb(examiner, reduction.witness, proof, lambda other: resolve(other, config)) if survived else None
    cause = find_cause(examiner, reduction.witness, proof, asker.symptom, layer)

    clock.enter("reproducer", "repro.py in a fresh process")
    script = write_reproducer(folder, reduction.witness, proof, spec, made_with)
    write_whole(folder / ISSUE, issue_text(spec, version, reduction.witness, proof, cause, script, made_with))
    shown = Script(script.path.name, script.reproduces, script.said)
    seconds = clock.close()
    return Explanation(
        name, spec.name, version, whole.verdict, path.steps, _culprits(path, reduction), not path.culprits, path.note,
        cause, layer, _proof(proof, reduction, survived), shown, made_with, seconds, examiner.trials, path.plain_runs,
    )  # fmt: skip


def confirm(examiner: Examiner, witness: Case) -> tuple[Examination, Symptom]:
    """The difference as it is today; raises when there is none, with what there is instead."""
    found = examiner.examine(witness, runs=2)
    verdict, platform = found.verdict, examiner.platform.name
    if verdict.conclusion is Conclusion.UNSTABLE:
        raise UsageError(
            f"{platform} differs from itself on a second run, so no smaller program can be compared with it",
            cause=verdict.sentence,
            hint="make it deterministic first (one thread, no atomics), then explain again",
        )
    if verdict.conclusion is Conclusion.HAZARD and found.is_surveyed:
        rules = [f"{name} ({op}): {RULES[name].reason}" for name, op in found.rules.items() if name in RULES]
        raise NothingToExplain(
            f"{platform} differs only where behaviour is unspecified",
            cause=f"unspecified: {'; '.join(rules) or verdict.sentence}",
            hint="mindgap rules lists every rule with its reference",
        )
    symptom = found.symptom
    if symptom is None:
        raise NothingToExplain(
            f"there is nothing to explain: {platform} does not diverge on the exported program",
            cause=f"{verdict.conclusion.value}: {verdict.sentence}",
            hint="mindgap check also runs your own source; a difference that only the source shows comes from "
            "what export leaves out (graph breaks, Python code)",
        )
    return found, symptom


def begin(examiner: Examiner, witness: Case, path: Trace, symptom: Symptom) -> tuple[Case, Symptom]:
    """Where to begin reducing: the first operator that is wrong alone, or neighbours together, or the whole program."""
    if len(path.steps) == 1:
        return witness, symptom
    for part in [path.parts[culprit] for culprit in path.culprits[:3]] or filter(None, [path.together]):
        (values,) = capture(lambda shown: examiner.run(examiner.baseline, shown), witness, [part])
        alone = extract(witness, part, values)
        found = examiner.shows(alone, symptom, exactly=False)
        if found is not None and found.symptom is not None:
            return alone, found.symptom
    return witness, symptom


def _culprits(path: Trace, reduction: Reduction) -> tuple[int, ...]:
    """The operators that are wrong alone; where none is, those that are left when nothing more can be cut."""
    return path.culprits or tuple(node.id for node in reduction.witness.graph.nodes if not is_access(node))


def _proof(proof: Examination, reduction: Reduction, survived: bool) -> Proof:
    return Proof(
        proof.verdict,
        proof.candidate.status,
        proof.candidate.stage,
        tuple(node.op for node in reduction.witness.graph.nodes if not is_access(node)),
        reduction.witness.elements(),
        survived,
        bool(proof.candidate.stable),
        reduction.finished,
        tuple(step.name for step in reduction.steps),
    )


def _version(pool: Pool, spec: PlatformSpec) -> str:
    """The platform's version; says clearly when it is gone."""
    try:
        return require(pool, spec).version
    except PlatformUnavailable as error:
        raise PlatformUnavailable(
            f"{spec.name} cannot be used here any more, so its difference cannot be explained",
            cause=error.cause,
            hint=error.hint,
        ) from error


class _Clock:
    """Time by stage, told as it passes."""

    def __init__(self, tell: Progress) -> None:
        self._tell = tell
        self._seconds: dict[str, float] = {}
        self._stage = ""
        self._start = time.perf_counter()

    def enter(self, stage: str, what: str) -> None:
        self.close()
        self._stage, self._start = stage, time.perf_counter()
        self._tell(stage, what)

    def close(self) -> dict[str, float]:
        if self._stage:
            self._seconds[self._stage] = round(time.perf_counter() - self._start, 3)
            self._tell(self._stage, DONE)
        return self._seconds

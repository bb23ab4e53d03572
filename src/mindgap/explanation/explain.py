"""The flow of an explanation as one readable function: confirm, trace, reduce, prove, find the cause, write it up."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Final

from mindgap.errors import PlatformUnavailable, UsageError
from mindgap.execution.pool import HOST, Pool
from mindgap.explanation.issue import Asked, issue_text
from mindgap.explanation.reproducer import TIMEOUT_S, write_reproducer
from mindgap.explanation.short import short_script, tried
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
from mindgap.tracing.bisection import shown_alone
from mindgap.tracing.cause import find_cause
from mindgap.tracing.conditions import find_conditions
from mindgap.tracing.examine import Examination, Examiner, OutOfTime, Symptom
from mindgap.tracing.extract import computing_first, is_access
from mindgap.tracing.ladder import climb
from mindgap.tracing.trace import Trace, trace
from mindgap.verdicts.unspecified import RULES

JOURNAL: Final = "journal"
PROOF_RUNS: Final = 5
"""How often the smallest witness runs in the first fresh process."""
PROCESSES: Final = 3
"""Fresh processes that must show it: what maintainers' own reports contain."""
ISSUE: Final = "issue.md"
SHORT: Final = "short.py"
"""The script that opens the issue, where one of at most 15 lines shows the difference."""
DONE: Final = "done"
ENDS: Final = {"confirm": 1.0, "trace": 0.6, "reduce": 0.8, "prove": 0.88, "cause": 0.94, "reproducer": 1.0}
"""When each stage ends at the latest, in parts of the budget: whatever takes long, something is left to prove it and
to write it down."""

Progress = Callable[[str, str], None]
"""Told who is doing what; at last DONE."""


class NothingToExplain(UsageError):
    """The platform does not differ, or not by more than rounding or unspecified behaviour explains."""


class OutOfBudget(UsageError):
    """Not even the difference could be confirmed in time."""


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
) -> Explanation:
    """Why a case gives another result on one platform; repro.py, issue.md and their data go to a folder.

    The budget holds for all of it: a stage that it ends gives the best that it has so far.
    """
    examiner = Examiner(pool, baseline or resolve("eager", config), spec, judge)
    clock = _Clock(tell, examiner, budget.seconds)
    version = _version(pool, spec)
    made_with = versions([spec])
    folder.mkdir(parents=True, exist_ok=True)

    with clock.stage("confirm", spec.name):
        whole, symptom = confirm(examiner, witness)

    with clock.stage("trace", spec.name):
        path = trace(examiner, witness, symptom, lambda what: tell("trace", what))

    with clock.stage("reduce", spec.name):
        start, seen = begin(examiner, witness, path, whole, symptom)
        journal = Journal(folder / JOURNAL, f"{start.key} {spec.name} {version} torch {made_with['torch']}")
        asker = Asker(examiner, seen.symptom or symptom, journal)
        allowed = replace(budget, seconds=examiner.until - time.monotonic())
        reduction = reduce(start, asker, asker.values, allowed, tell=lambda what: tell("reduce", what))

    proofs: list[Examination] = []
    with clock.stage("prove", "in fresh processes"):
        proofs += prove(examiner, reduction.witness, asker.symptom)
    proof = proofs[0] if proofs else asker.seen or seen
    survived = bool(proofs) and all(_fits(asker.symptom, found) for found in proofs)

    with clock.stage("cause", "experiments"):
        layer = climb(examiner, reduction.witness, proof, lambda other: resolve(other, config)) if survived else None
        cause = find_cause(examiner, reduction.witness, proof, asker.symptom, layer)
        if survived:
            cause = replace(cause, conditions=find_conditions(examiner, reduction.witness, asker.symptom))

    with clock.stage("reproducer", "repro.py in a fresh process"):
        script = write_reproducer(folder, reduction.witness, proof, spec, made_with, examiner.until)
        text = short_script(reduction.witness, proof, spec) if script.reproduces else ""
        short = tried(text, proof.candidate.ok, min(TIMEOUT_S, examiner.until - time.monotonic()), spec)
        elsewhere = _elsewhere(examiner, reduction.witness, config) if survived else ()
        asked = Asked(layer, len(proofs) if survived else 0, elsewhere)
        issue = issue_text(spec, version, reduction.witness, proof, cause, script, made_with, short, asked)
        write_whole(folder / ISSUE, issue)
        if short.shows:
            write_whole(folder / SHORT, short.text)
    shown = Script(script.path.name, script.reproduces, script.said)
    return Explanation(
        name, spec.name, version, whole.verdict, path.steps, _culprits(path, reduction), not path.culprits, path.note,
        cause, layer, _proof(proof, reduction, survived), shown, made_with, clock.seconds, examiner.trials,
        path.plain_runs, tuple(name for name in clock.cut_short if name != "trace" or not path.finished),
    )  # fmt: skip


def prove(examiner: Examiner, witness: Case, symptom: Symptom) -> list[Examination]:
    """The witness in one fresh process after the other, until one does not show the finding or the time is over."""
    found: list[Examination] = []
    while len(found) < PROCESSES and all(_fits(symptom, item) for item in found):
        examiner.fresh()
        try:
            found.append(examiner.examine(witness, runs=1 if found else PROOF_RUNS))
        except OutOfTime:
            break
    return found


def _fits(symptom: Symptom, found: Examination) -> bool:
    return found.symptom is not None and symptom.fits(found.symptom)


def _elsewhere(examiner: Examiner, witness: Case, config: Config) -> tuple[str, ...]:
    """What the same runtime does in other interpreters that the user has configured: a nightly build, say."""
    own, said = examiner.platform, []
    with contextlib.suppress(OutOfTime):
        for other in config.platforms.values():
            if (other.adapter, other.device) != (own.adapter, own.device) or other.python in (None, own.python):
                continue
            with contextlib.suppress(PlatformUnavailable):
                version = require(examiner.pool, other).version
                seen = examiner.examine(witness, platform=other)
                said.append(f"{other.name} ({version}): {seen.verdict.conclusion.value}")
    return tuple(said)


def confirm(examiner: Examiner, witness: Case) -> tuple[Examination, Symptom]:
    """The difference as it is today; raises when there is none, with what there is instead."""
    try:
        found = examiner.examine(witness, runs=2)
    except OutOfTime as error:
        raise OutOfBudget(
            f"the budget was spent before {examiner.platform.name} and eager had run it once",
            hint="give it more time: --budget SECONDS",
        ) from error
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


def begin(
    examiner: Examiner, witness: Case, path: Trace, whole: Examination, symptom: Symptom
) -> tuple[Case, Examination]:
    """Where to begin reducing, and what it shows: the first operator that is wrong alone, or neighbours together, or
    the whole program."""
    if len(path.steps) == 1:
        return witness, whole
    for part in [path.parts[culprit] for culprit in path.culprits[:3]] or filter(None, [path.together]):
        with contextlib.suppress(OutOfTime):
            found = shown_alone(examiner, witness, symptom, part)
            if found is not None:
                return found
    return witness, whole


def _culprits(path: Trace, reduction: Reduction) -> tuple[int, ...]:
    """The operators that are wrong alone; where none is, those that are left when nothing more can be cut."""
    left = [node.id for node in computing_first(reduction.witness.graph)]
    within = set(path.together) & set(left)  # a part that was found, if there was no time to go on from there
    return path.culprits or tuple(identity for identity in left if not within or identity in within)


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
    """Time by stage, told as it passes; a stage that comes to its end by the budget is cut short."""

    def __init__(self, tell: Progress, examiner: Examiner, budget_s: float) -> None:
        self.seconds: dict[str, float] = {}
        self.cut_short: list[str] = []
        self._tell = tell
        self._examiner = examiner
        self._budget_s = budget_s
        self._start = time.monotonic()

    @contextlib.contextmanager
    def stage(self, name: str, what: str) -> Iterator[None]:
        entered = time.monotonic()
        self._examiner.until = self._start + ENDS[name] * self._budget_s
        self._tell(name, what)
        with contextlib.suppress(OutOfTime):
            yield
        if time.monotonic() > self._examiner.until:
            self.cut_short.append(name)
        self.seconds[name] = round(time.monotonic() - entered, 3)
        self._tell(name, DONE)

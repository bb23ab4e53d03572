"""From a difference to the operator, the cause and a short proof: the flow as one readable function.

`explain` is what the command line and Python users call. Each stage is a folder of its own (tracing, reduction);
this module only hands the result of one to the next.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import torch

from mindgap.campaign.evidence import read_program
from mindgap.campaign.ledger import Ledger
from mindgap.corpus.inputs import of_program
from mindgap.errors import ModelError, PlatformUnavailable, UsageError
from mindgap.execution.pool import Pool
from mindgap.execution.serve_batch import Weights
from mindgap.pipeline import DONE, Given, Progress, environment, import_paths, make_subject
from mindgap.platforms.config import Config, load_config
from mindgap.platforms.registry import resolve
from mindgap.program.case import Case
from mindgap.program.codec import decode
from mindgap.records.files import write_whole
from mindgap.records.platform import PlatformSpec
from mindgap.records.verdict import Conclusion, Verdict
from mindgap.reduction.asking import Asker
from mindgap.reduction.issue import issue_text
from mindgap.reduction.journal import Journal
from mindgap.reduction.reducer import Budget, Reduction, reduce
from mindgap.reduction.reproducer import Reproducer, write_reproducer
from mindgap.tracing.capture import capture
from mindgap.tracing.cause import Cause, find_cause
from mindgap.tracing.examine import Examination, Examiner, Symptom
from mindgap.tracing.extract import extract
from mindgap.tracing.ladder import Ladder, climb
from mindgap.tracing.trace import Trace, trace
from mindgap.verdicts.unspecified import RULES

JOURNAL: Final = "journal"
PROOF_RUNS: Final = 5
"""How often the smallest witness runs in the fresh process."""
ISSUE: Final = "issue.md"


class NothingToExplain(UsageError):
    """The platform does not differ, or not by more than rounding or unspecified behaviour explains."""


@dataclass(frozen=True)
class Explanation:
    """Everything that was learnt about one difference on one platform."""

    name: str
    platform: str
    version: str
    verdict: Verdict
    """Of the whole program."""
    nodes: int
    trace: Trace
    reduction: Reduction
    proof: Examination
    """Of the smallest witness, in a fresh process."""
    survived: bool
    """Whether that fresh process showed the same finding, with the same bits each time."""
    cause: Cause
    ladder: Ladder | None
    reproducer: Reproducer
    versions: Mapping[str, str] = field(default_factory=dict)
    seconds: Mapping[str, float] = field(default_factory=dict)
    """By stage."""
    trials: int = 0
    """Programs that were run on the platform."""

    @property
    def culprits(self) -> tuple[int, ...]:
        """Node ids of the operators at fault, the first suspect first; several when they differ only together."""
        return self.trace.culprits or tuple(node.id for node in self.reduction.witness.graph.nodes)


def explain(
    model: str | torch.nn.Module | Callable[..., Any],
    on: str,
    folder: Path | str,
    inputs: Given | None = None,
    *,
    dtype: str | None = None,
    seed: int = 0,
    trust: bool = False,
    config: Config | None = None,
    budget: Budget = Budget(),  # noqa: B008 - frozen
    pool: Pool | None = None,
    progress: Progress | None = None,
) -> Explanation:
    """Why a model gives another result on one platform; writes repro.py, issue.md and their data to a folder."""
    tell = progress or (lambda who, what: None)
    config = config or load_config(None)
    spec = resolve(on, config)
    own_pool = Pool(import_paths()) if pool is None else None
    workers = pool or own_pool
    assert workers is not None
    try:
        workers.warm(spec)
        tell("model", "load and export")
        subject = make_subject(workers, model, inputs, dtype=dtype, seed=seed, trust=trust)
        tell("model", DONE)
        witness = Case.of(subject)
        if witness is None:
            raise ModelError("a model that cannot be exported cannot be explained", cause=subject.export_failure)
        return explain_witness(workers, subject.name, witness, spec, config, Path(folder), budget, tell)
    finally:
        if own_pool is not None:
            own_pool.close()


def explain_finding(
    directory: Path,
    identity: str,
    *,
    config: Config | None = None,
    budget: Budget = Budget(),  # noqa: B008 - frozen
    pool: Pool | None = None,
    progress: Progress | None = None,
) -> Explanation:
    """A finding of the campaign in a directory; its folder there is named by its id."""
    config = config or load_config(None)
    filed = read_finding(directory, identity)
    own_pool = Pool(import_paths()) if pool is None else None
    workers = pool or own_pool
    assert workers is not None
    tell = progress or (lambda who, what: None)
    spec = resolve(filed.platform, config)
    try:
        return explain_witness(workers, identity, filed.witness, spec, config, directory / identity, budget, tell)
    except NothingToExplain as nothing:
        now = _require(workers, spec)
        changed = f"{filed.platform} was {filed.version}, now {now}" if now != filed.version else ""
        raise UsageError(
            f"{identity} no longer reproduces",
            cause="; ".join(filter(None, [nothing.cause, changed or f"{filed.platform} is still {now}"])),
        ) from nothing
    finally:
        if own_pool is not None:
            own_pool.close()


@dataclass(frozen=True)
class Filed:
    """A finding as a campaign left it."""

    platform: str
    version: str
    """Of the platform at that time."""
    witness: Case


def finding_ids(directory: Path) -> list[str]:
    """The findings of a campaign, in its order."""
    with Ledger(directory) as ledger:
        return [str(row[0]) for row in ledger.data.execute("SELECT id FROM findings ORDER BY id")]


def read_finding(directory: Path, identity: str) -> Filed:
    """The witness of a finding, its weights and inputs made again."""
    with Ledger(directory) as ledger:
        query = (
            "SELECT f.witness, f.witness_platform, p.version FROM findings f "
            "LEFT JOIN platforms p ON p.name = f.witness_platform WHERE f.id = ?"
        )
        row = ledger.data.execute(query, (identity,)).fetchone()
        if row is None:
            raise UsageError(f"the campaign in {directory} has no finding {identity}", hint="summary.md lists them")
        data = read_program(ledger, row[0])
    if data is None:
        raise UsageError(f"the program of {identity} was not kept", where=str(directory))
    program = decode(data, where=f"{directory}: {identity}")
    constants = Weights().of(program, str(directory / "weights"))
    return Filed(row[1], row[2] or "", Case.of(program, constants, of_program(program, 0)))


def explain_witness(
    pool: Pool,
    name: str,
    witness: Case,
    spec: PlatformSpec,
    config: Config,
    folder: Path,
    budget: Budget,
    tell: Progress,
) -> Explanation:
    """The stages, one after the other."""
    clock = _Clock(tell)
    probe = _require(pool, spec)
    examiner = Examiner(pool, resolve("eager", config), spec)
    versions = environment()
    folder.mkdir(parents=True, exist_ok=True)

    clock.enter("confirm", spec.name)
    whole, symptom = confirm(examiner, witness)

    clock.enter("trace", spec.name)
    path = trace(examiner, witness, symptom, lambda what: tell("trace", what))

    clock.enter("reduce", spec.name)
    start, symptom = begin(examiner, witness, path, symptom)
    journal = Journal(folder / JOURNAL, f"{start.key} {spec.name} {probe} torch {versions['torch']}")
    asker = Asker(examiner, symptom, journal)
    reduction = reduce(start, asker, asker.values, budget, tell=lambda what: tell("reduce", what))

    clock.enter("prove", "in a fresh process")
    examiner.fresh()
    proof = examiner.examine(reduction.witness, runs=PROOF_RUNS)
    survived = proof.symptom is not None and asker.symptom.fits(proof.symptom)

    clock.enter("cause", "experiments")
    ladder = climb(examiner, reduction.witness, proof, lambda other: resolve(other, config)) if survived else None
    cause = find_cause(examiner, reduction.witness, proof, asker.symptom, ladder)

    clock.enter("reproducer", "repro.py in a fresh process")
    reproducer = write_reproducer(folder, reduction.witness, proof, spec, versions)
    explanation = Explanation(
        name, spec.name, probe, whole.verdict, len(path.steps), path, reduction, proof, survived, cause, ladder,
        reproducer, versions, clock.close(), examiner.trials,
    )  # fmt: skip
    write_whole(folder / ISSUE, issue_text(spec, probe, reduction.witness, proof, cause, reproducer, versions))
    return explanation


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
    if verdict.conclusion is Conclusion.HAZARD and found.survey is not None:
        rules = [f"{name} ({op}): {RULES[name].reason}" for name, op in found.survey.rules.items() if name in RULES]
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


def _require(pool: Pool, spec: PlatformSpec) -> str:
    """The platform's version; says clearly when it is gone."""
    try:
        return pool.require(spec).version
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

"""Judging a case in a worker, which reads the outputs of all platforms from their files."""

from __future__ import annotations

import re
import sys
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, NamedTuple

from mindgap.errors import FilesLost, MindgapError, NoSpace
from mindgap.execution.arena import opened
from mindgap.execution.parcel import Constants, Parcel, open_parcel, with_state
from mindgap.execution.pool import HOST, Pool
from mindgap.execution.process import Death
from mindgap.execution.tasks import Worker, find, hosting, stream_task
from mindgap.program.case import Case
from mindgap.records.memory import collect_seldom
from mindgap.records.outcome import Outcome
from mindgap.records.platform import PlatformSpec
from mindgap.records.verdict import Conclusion, Verdict
from mindgap.verdicts.judge import Judgement
from mindgap.verdicts.nobody import without_blame
from mindgap.verdicts.onnx_runner import OnnxFile
from mindgap.verdicts.related import Relation, judge_related
from mindgap.verdicts.runner import Runnable
from mindgap.verdicts.steps import STEPS, Step, is_odd, judge_all, judge_in_steps
from mindgap.verdicts.survey import Survey
from mindgap.verdicts.surveyor import Surveyor

MAP_BEYOND: Final = 16 << 20
"""Bytes of one platform's outputs: up to here a copy costs no more than a map, beyond it memory counts."""
NO_BASELINE: Final = "none: eager could not run it"
NO_CANDIDATE: Final = "none: no platform ran it"
SAME_BITS: Final = "not needed: no platform gave other bits than eager"
NOTHING_BEYOND: Final = "not needed: no platform is farther from eager than rounding explains"


class Comparing(NamedTuple):
    """A baseline, and the candidates that are compared with it."""

    baseline: Outcome
    candidates: tuple[Outcome, ...]


@dataclass(frozen=True, slots=True)
class Question:
    """One case whose platforms do not all agree: who is wrong?"""

    case: Parcel
    groups: tuple[Comparing, ...]
    steps: tuple[Step, ...] = STEPS
    refusal_agrees: bool = False
    """Whether the case may be invalid on purpose: then refusing it is right where eager refuses it."""
    relation: Relation | None = None
    """Set when the baseline is not another platform but another program on the same platform."""


@dataclass(frozen=True, slots=True)
class Judged:
    """The answer to a question, with the evidence that an explanation needs."""

    judgements: Mapping[str, Judgement] = field(default_factory=dict)
    """By platform."""
    reference: str = ""
    """What errors were measured against, or why there was nothing."""
    rules: Mapping[str, str] = field(default_factory=dict)
    """Rules of unspecified behaviour that a call fell under, and the operator."""
    noise_runs: int = 0
    spread: float = 0.0
    """The most that rounding noise moved an element."""
    is_surveyed: bool = False

    @property
    def verdicts(self) -> dict[str, Verdict]:
        return {name: judgement.verdict for name, judgement in self.judgements.items()}


def speaking_of(judged: Judged, baseline: str) -> Judged:
    """The judge calls every baseline eager; in the words for people it has its own name."""
    if baseline == "eager":
        return judged

    def told(text: str) -> str:
        return re.sub(r"\beager\b", baseline, text)

    judgements = {
        name: replace(item, verdict=replace(item.verdict, sentence=told(item.verdict.sentence)))
        for name, item in judged.judgements.items()
    }
    return replace(judged, judgements=judgements, reference=told(judged.reference))


@hosting(NoSpace, FilesLost)
@stream_task
def judge_cases(worker: Worker, questions: tuple[Question, ...]) -> Iterator[Judged]:
    """Reports each answer as soon as it is ready; a question that fails costs only its own verdicts."""
    collect_seldom()
    for question in questions:
        try:
            yield judged(question, worker.keep(Constants))
        except FilesLost:
            raise
        except Exception as error:
            sys.stderr.write(traceback.format_exc())
            yield unjudged(question, f"judging failed, which is a bug in mindgap: {type(error).__name__}: {error}")


def judged(question: Question, constants: Constants) -> Judged:
    """Verdicts on every candidate, from as much evidence as they need."""
    groups = [
        (opened(group.baseline, MAP_BEYOND), [opened(c, MAP_BEYOND) for c in group.candidates])
        for group in question.groups
    ]
    evidence = _Evidence(question, groups[0][0], constants)
    if question.relation is not None:
        original = open_parcel(question.relation.original, constants)
        before = Surveyor(runnable(original), original.inputs, original.seed).survey(0)
        found = judge_related(question.relation, groups[0][0], groups[0][1][0], before, evidence.survey)
    else:
        found = judge_in_steps(groups, evidence.survey, question.steps, question.refusal_agrees)
    found = without_blame(found, [candidate for _, candidates in groups for candidate in candidates])
    last = evidence.last
    if last is None:
        return Judged(found, without_reference(question.groups))
    if last.problem:
        return Judged(found, f"none: the float64 reference could not be made ({last.problem})")
    return Judged(found, "eager in float64", last.rules, last.runs, last.largest_spread, is_surveyed=True)


class _Evidence:
    """Surveys the case of a question, as far as its verdicts ask for it."""

    def __init__(self, question: Question, baseline: Outcome, constants: Constants) -> None:
        self._question = question
        self._constants = constants
        known = baseline.is_local_eager and question.relation is None
        self._plain = {item.name: item.tensor for item in baseline.outputs} if known else None
        self._surveyor: Surveyor | None = None
        self.last: Survey | None = None

    def survey(self, step: Step) -> Survey:
        try:
            if self._surveyor is None:
                case = open_parcel(self._question.case, self._constants)
                self._surveyor = Surveyor(runnable(case), case.inputs, case.seed, self._plain)
            self.last = self._surveyor.survey(step.runs, not step.is_last, step.reference)
        except Exception as error:
            sys.stderr.write(traceback.format_exc())
            self.last = Survey(problem=f"{type(error).__name__}: {error}".splitlines()[0])
        return self.last


def runnable(case: Case) -> Runnable:
    """The program with its constants; the user's own model where it could not be exported."""
    if case.program is not None:
        return case.program, case.constants
    if case.file:
        return OnnxFile(case.file)
    if case.source is None:
        raise MindgapError("there is neither a program nor a source to survey")
    model: Callable[..., Any] = find(case.source.loader)(case.source)
    with_state(model, case.state, case.constants)
    return model


def unjudged(question: Question, reason: str) -> Judged:
    """No verdict on any candidate, and why."""
    names = [candidate.platform for group in question.groups for candidate in group.candidates]
    return Judged({name: Judgement(Verdict(name, Conclusion.UNJUDGED, reason)) for name in names})


def ask_judge(pool: Pool, question: Question, host: PlatformSpec = HOST) -> Judged:
    """The answer to a question; no worker is needed where every platform gave the baseline's bits."""
    pairs = [(group.baseline, c) for group in question.groups for c in group.candidates]
    if not any(differs(*pair) or is_odd(*pair) for pair in pairs):
        found = judge_all(question.groups, None, question.refusal_agrees)
        found = without_blame(found, [c for group in question.groups for c in group.candidates])
        return Judged(found, without_reference(question.groups))
    answer = pool.ask_one(host, judge_cases, (_by_file(question),))
    if isinstance(answer, Death):
        return unjudged(question, f"the float64 reference could not be made: {answer.message}")
    return believed(question, answer)


def believed(question: Question, found: Judged) -> Judged:
    """What a judge says, as long as it speaks of every candidate: the model that it runs may have spoken instead.

    Of a relation that does not hold in float64 there is nothing to say.
    """
    if question.relation is not None and not found.judgements:
        return found
    asked = {candidate.platform for group in question.groups for candidate in group.candidates}
    named = {name: judgement.verdict.platform for name, judgement in found.judgements.items()}
    if named != {name: name for name in asked}:
        return unjudged(question, "the judge's answer is not about the platforms that were asked for")
    return found


def without_reference(groups: Sequence[Comparing]) -> str:
    """Why errors were measured against nothing."""
    asked = [group for group in groups if group.candidates]
    if not any(group.baseline.ok for group in asked):
        return NO_BASELINE
    ran = [(group.baseline, c) for group in asked for c in group.candidates if group.baseline.ok and c.ok]
    if not ran:
        return NO_CANDIDATE
    return NOTHING_BEYOND if any(differs(*pair) for pair in ran) else SAME_BITS


def _by_file(question: Question) -> Question:
    """The question as it travels: outputs stay in their files."""
    groups = [
        Comparing(replace(base, outputs=()), tuple(replace(c, outputs=()) for c in others))
        for base, others in question.groups
    ]
    return replace(question, groups=tuple(groups))


def differs(baseline: Outcome, candidate: Outcome) -> bool:
    """Whether both ran, and not with the same bits: only then a reference can decide anything."""
    return baseline.ok and candidate.ok and baseline.digest != candidate.digest

"""Climbing a platform's ladder: which layer brings a difference in, and which setting removes it.

The platform says what there is to try (`platforms.ladder`); here it is tried, on the smallest case. Every rung and
knob is an examination like any other, with options that hold for that one request.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from enum import Enum
from typing import Any

from mindgap.errors import PlatformUnavailable, UnknownPlatform
from mindgap.platforms.base import Platform
from mindgap.platforms.ladder import Knob, Ladder, Passes, Rung
from mindgap.platforms.registry import adapter_class
from mindgap.program.case import Case
from mindgap.records.explanation import Layer
from mindgap.records.platform import PlatformSpec
from mindgap.records.verdict import Conclusion
from mindgap.tracing.examine import Examination, Examiner, OutOfTime, Symptom

Resolve = Callable[[str], PlatformSpec]


class Answer(str, Enum):
    """What a rung or a knob showed."""

    AGREES = "agrees"
    DIFFERS = "differs"
    OTHERWISE = "differs in another way"
    NOT_JUDGED = "cannot be judged"
    NOT_RUN = "did not run"


def climb(examiner: Examiner, case: Case, found: Examination, resolve: Resolve) -> Layer | None:
    """What the ladder of the platform says about a difference; None where there is nothing to try, or no time."""
    ladder = (adapter_class(examiner.platform) or Platform).ladder(examiner.platform)
    if found.symptom is None or ladder is None:
        return None
    try:
        return _conclude(ladder, _Trials(examiner, case, found.symptom, resolve))
    except OutOfTime:
        return None


def _conclude(ladder: Ladder, trials: _Trials) -> Layer:
    reached, open_below = _first_that_differs(ladder.rungs, trials)
    unsure = bool(open_below) or reached is None
    # Knobs are settings of the whole runtime: when a part of it differs already, only a known answer counts.
    asked = ladder.knobs if unsure or reached is None or reached.is_whole else trials.known(ladder.knobs)
    helping = [knob for knob in asked if trials.answer(knob.name, knob.options) is Answer.AGREES]

    passes = ladder.passes
    smallest = _smallest(passes, trials) if passes is not None and _may_be_a_pass(passes, reached) else ()
    cures = tuple(filter(None, (_named_passes(passes, smallest), *(knob.cure for knob in helping))))
    switched = (f"the {passes.what} {_listed(smallest)} are off",) if passes and smallest else ()

    def climbed(layer: str, sentence: str, cause: str = "") -> Layer:
        restoring = (*switched, *(knob.restores for knob in helping))
        return Layer(layer, sentence, cause, trials.seen(), restoring, cures)

    if passes is not None and smallest and passes.within:
        return climbed(passes.layer, f"it comes from {passes.what}: with {_listed(smallest)} off it agrees")
    exact = next((knob for knob in helping if reached is None or knob.layer != reached.layer), None)
    if exact is not None:
        return climbed(exact.layer, f"it comes from {exact.layer}: with {exact.name} it agrees", exact.cause)
    if open_below and reached is not None:
        return climbed("", _undecided(open_below, reached, trials))
    if reached is not None:
        no_switch = "; no switch helps" if asked and not helping else ""
        return climbed(reached.layer, reached.says + no_switch, reached.cause)
    what = _listed([knob.name for knob in ladder.knobs])
    return climbed("", f"it differs with {what} as well" if what else "no part of the runtime alone shows it")


def _may_be_a_pass(passes: Passes, reached: Rung | None) -> bool:
    """Whether the layer of the passes brings it in: below it, nothing that is switched off there can help."""
    return reached is not None and reached.layer == (passes.within or passes.layer)


def _named_passes(passes: Passes | None, names: Sequence[str]) -> str:
    return passes.cure.format(names=list(names)) if passes is not None and names else ""


def _smallest(passes: Passes, trials: _Trials) -> tuple[str, ...]:
    """The fewest passes that restore agreement when they are off; none where even all of them do not help.

    By halves: where one half is enough the other is forgotten; otherwise each is made small while the other is off.
    """

    def helps(names: Sequence[str]) -> bool:
        return trials.asked_quietly({passes.option: list(names)}) is Answer.AGREES

    def reduced(names: tuple[str, ...], kept: tuple[str, ...]) -> tuple[str, ...]:
        if len(names) == 1:
            return names
        first, second = names[: len(names) // 2], names[len(names) // 2 :]
        if helps((*kept, *first)):
            return reduced(first, kept)
        if helps((*kept, *second)):
            return reduced(second, kept)
        left = reduced(first, (*kept, *second))
        return (*left, *reduced(second, (*kept, *left)))

    try:
        return reduced(passes.names, ()) if helps(passes.names) else ()
    except OutOfTime:  # what the ladder says stands without it
        return ()


def _first_that_differs(rungs: Sequence[Rung], trials: _Trials) -> tuple[Rung | None, list[Rung]]:
    """That rung, and those right below it of which nobody knows whether they differ."""
    unknown: list[Rung] = []
    for rung in rungs:
        answer = Answer.DIFFERS if rung.is_whole else trials.answer(rung.name, rung.options, rung.platform)
        trials.note(rung.name, answer)
        if answer is Answer.DIFFERS:
            return rung, [other for other in unknown if other.layer != rung.layer]
        unknown = [] if answer is Answer.AGREES else [*unknown, rung]
    return None, unknown


def _undecided(below: Sequence[Rung], reached: Rung, trials: _Trials) -> str:
    told = dict(trials.seen())
    why = _listed([f"{rung.name} {told[rung.name]}" for rung in below])
    layers = dict.fromkeys(rung.layer for rung in (*below, reached))
    return f"{why}, so {_listed(list(layers))} cannot be told apart"


def _listed(items: Sequence[str]) -> str:
    """`a, b and c`."""
    return " and ".join(filter(None, [", ".join(items[:-1]), *items[-1:]]))


class _Trials:
    """Asks the examiner, each question once, and remembers the answers in order."""

    def __init__(self, examiner: Examiner, case: Case, symptom: Symptom, resolve: Resolve) -> None:
        self._examiner = examiner
        self._case = case
        self._symptom = symptom
        self._resolve = resolve
        self._answers: dict[str, Answer] = {}
        self._told: dict[str, Answer] = {}

    def answer(self, name: str, options: Mapping[str, Any], platform: str | None = None) -> Answer:
        """What the same case shows with these options, or on another platform."""
        key = _key(options, platform)
        if key not in self._answers:
            self._answers[key] = self._asked(options, platform)
            self.note(name, self._answers[key])
        return self._answers[key]

    def asked_quietly(self, options: Mapping[str, Any]) -> Answer:
        """The same without a line of its own among what was tried."""
        key = _key(options, None)
        if key not in self._answers:
            self._answers[key] = self._asked(options, None)
        return self._answers[key]

    def known(self, knobs: Sequence[Knob]) -> tuple[Knob, ...]:
        """Those knobs that a rung has answered already."""
        return tuple(knob for knob in knobs if _key(knob.options, None) in self._answers)

    def note(self, name: str, answer: Answer) -> None:
        self._told[name] = answer

    def seen(self) -> tuple[tuple[str, str], ...]:
        """What was tried, with the answers in words."""
        return tuple((name, answer.value) for name, answer in self._told.items())

    def _asked(self, options: Mapping[str, Any], platform: str | None) -> Answer:
        try:
            other = None if platform is None else _beside(self._examiner.platform, self._resolve(platform))
            seen = self._examiner.examine(self._case, options=options, platform=other)
        except (PlatformUnavailable, UnknownPlatform):
            return Answer.NOT_RUN
        if seen.symptom is None:
            unclear = seen.verdict.conclusion in (Conclusion.UNSTABLE, Conclusion.UNJUDGED)
            return Answer.NOT_JUDGED if unclear else Answer.AGREES
        if self._symptom.fits(seen.symptom, exactly=False):
            return Answer.DIFFERS
        return Answer.NOT_RUN if self._symptom.candidate_runs and not seen.candidate.ok else Answer.OTHERWISE


def _key(options: Mapping[str, Any], platform: str | None) -> str:
    return repr((platform, sorted(options.items())))


def _beside(spec: PlatformSpec, other: PlatformSpec) -> PlatformSpec:
    """The other platform in the interpreter and environment of this one: the packages of both are the same."""
    if spec.python is None and not spec.env:
        return other
    name, env = f"{other.name} beside {spec.name}", {**spec.env, **other.env}
    return replace(other, name=name, python=spec.python, env=env, limits=spec.limits)

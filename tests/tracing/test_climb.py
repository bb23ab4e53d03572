"""The climber reads a ladder that is data: no runtime is named in it, and none is started here."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, cast

import pytest
import torch

from mindgap.errors import PlatformUnavailable
from mindgap.platforms.base import Platform
from mindgap.platforms.ladder import Knob, Ladder, Passes, Rung
from mindgap.program.case import Case
from mindgap.program.inputs import Inputs
from mindgap.records.explanation import Layer
from mindgap.records.platform import PlatformSpec
from mindgap.records.verdict import Conclusion
from mindgap.tracing.ladder import climb


class Layered(Platform):
    """Exporter (on another platform), kernels, optimiser; one knob turns the optimiser off, one its fusion."""

    runtime = "layered"
    summary = "a ladder and nothing else"
    rungs: ClassVar = (
        Rung("standard", platform="standard", layer="exporter", says="the export is wrong", cause="exporter semantics"),
        Rung("kernels", {"level": 0}, layer="kernels", says="its kernels bring it in"),
        Rung("some", {"level": 1}, layer="optimiser", says="level 1 brings it in"),
        Rung("all", layer="optimiser", says="level 2 brings it in"),
    )
    knobs: ClassVar = (
        Knob("optimiser off", {"level": 0}, "optimiser", "it runs without its optimiser"),
        Knob("fusion off", {"fusion": False}, "fusion", "it runs without fusion", cause="decomposition"),
    )

    def probe(self) -> Any:
        raise NotImplementedError

    def prepare(self, case: Any, clock: Any) -> Any:
        raise NotImplementedError


class Threaded(Layered):
    rungs: ClassVar = ()
    knobs: ClassVar = ()


SPEC = PlatformSpec("layered", f"{__name__}:Layered")
DIFFERS, OTHER, FAILS = "differs", "other", "fails"


@dataclass(frozen=True)
class Symptom:
    what: str = DIFFERS
    candidate_runs: bool = True

    def fits(self, other: Symptom, exactly: bool = True) -> bool:
        assert not exactly
        return self.what == other.what


@dataclass(frozen=True)
class Ok:
    ok: bool


@dataclass(frozen=True)
class Said:
    conclusion: Conclusion


@dataclass(frozen=True)
class Examination:
    what: str

    @property
    def symptom(self) -> Symptom | None:
        return Symptom(self.what, self.what != FAILS) if self.what in (DIFFERS, OTHER, FAILS) else None

    @property
    def candidate(self) -> Ok:
        return Ok(self.what != FAILS)

    @property
    def verdict(self) -> Said:
        return Said(Conclusion(self.what) if self.what in ("agrees", "rounding", "unjudged") else Conclusion.DIVERGES)


@dataclass
class Examiner:
    """Answers from a table; whatever is not in it agrees."""

    answers: Mapping[str, str]
    platform: PlatformSpec = SPEC
    asked: list[str] = field(default_factory=list)

    def examine(
        self, case: Case, options: Mapping[str, Any] | None = None, platform: PlatformSpec | None = None
    ) -> Examination:
        question = platform.name if platform else repr(dict(options or {}))
        self.asked.append(question)
        answer = self.answers.get(question, "agrees")
        if answer == "missing":
            raise PlatformUnavailable("it is not here")
        return Examination(answer)


CASE = Case(Inputs.of([torch.ones(1)], {}))
KERNELS, SOME, FUSION = repr({"level": 0}), repr({"level": 1}), repr({"fusion": False})


def resolve(name: str) -> PlatformSpec:
    return PlatformSpec(name, "somewhere:Else", env={"A": "1"})


def climbed(found: str = DIFFERS, /, **answers: str) -> tuple[Layer, list[str]]:
    names = {"standard": "standard", "kernels": KERNELS, "some": SOME, "fusion": FUSION}
    examiner: Any = Examiner({names[name]: answer for name, answer in answers.items()})
    seen: Any = Examination(found)
    result = climb(examiner, CASE, seen, resolve)
    assert result is not None
    return result, examiner.asked


def test_the_first_rung_that_differs_names_the_layer_and_nothing_more_is_run() -> None:
    found, asked = climbed(standard=DIFFERS)
    assert (found.name, found.cause, found.sentence) == ("exporter", "exporter semantics", "the export is wrong")
    assert asked == ["standard"] and found.rungs == (("standard", "differs"),) and not found.restoring


def test_a_rung_that_agreed_is_a_workaround_and_is_not_run_again() -> None:
    found, asked = climbed(some=DIFFERS)
    assert (found.name, found.sentence) == ("optimiser", "level 1 brings it in")
    assert found.restoring == ("it runs without its optimiser",)
    assert asked == ["standard", KERNELS, SOME]


def test_the_whole_runtime_is_not_run_again_and_every_knob_is_tried() -> None:
    found, asked = climbed(fusion=DIFFERS)
    assert (found.name, found.sentence) == ("optimiser", "level 2 brings it in")
    assert asked == ["standard", KERNELS, SOME, FUSION]
    assert dict(found.rungs) == {
        "standard": "agrees", "kernels": "agrees", "some": "agrees", "all": "differs", "fusion off": "differs",
    }  # fmt: skip


def test_a_knob_of_another_layer_is_more_exact() -> None:
    found, _ = climbed()
    assert (found.name, found.cause) == ("fusion", "decomposition")
    assert found.sentence == "it comes from fusion: with fusion off it agrees"
    assert found.restoring == ("it runs without its optimiser", "it runs without fusion")


@pytest.mark.parametrize(
    ("answer", "word"),
    [(FAILS, "did not run"), ("missing", "did not run"), (OTHER, "differs in another way"),
     ("unjudged", "cannot be judged")],
)  # fmt: skip
def test_a_rung_without_an_answer_leaves_two_layers(answer: str, word: str) -> None:
    found, asked = climbed(standard=answer, kernels=DIFFERS, fusion=DIFFERS)
    assert (found.name, found.cause) == ("", "")
    assert found.sentence == f"standard {word}, so exporter and kernels cannot be told apart"
    assert asked == ["standard", KERNELS, FUSION]


def test_a_rung_above_that_agrees_settles_what_did_not_run_below() -> None:
    found, _ = climbed(standard=FAILS, some=DIFFERS)
    assert found.name == "optimiser"


def test_a_failure_has_a_layer_too() -> None:
    found, _ = climbed(FAILS, standard="rounding", kernels=FAILS)
    assert found.name == "kernels"


def test_no_switch_helps() -> None:
    Plain = type("Plain", (Layered,), {"rungs": (Layered.rungs[-1],), "knobs": Layered.knobs[1:]})
    globals()["Plain"] = Plain
    examiner: Any = Examiner({FUSION: DIFFERS}, replace(SPEC, adapter=f"{__name__}:Plain"))
    seen: Any = Examination(DIFFERS)
    found = climb(examiner, CASE, seen, resolve)
    assert found is not None and found.sentence == "level 2 brings it in; no switch helps"


def test_passes_of_the_whole_runtime_name_the_layer() -> None:
    passes = Passes("its passes", "off", ("a", "b", "c"), "passes", "run(off={names})", within="optimiser")
    ladder = Ladder((Layered.rungs[-1],), (), passes)
    Passing = type("Passing", (Layered,), {"ladder": classmethod(lambda cls, spec: ladder)})
    globals()["Passing"] = Passing
    guilty = [repr({"off": names}) for names in (["a"], ["c"], ["a", "c"], [])]
    examiner: Any = Examiner(dict.fromkeys(guilty, DIFFERS), replace(SPEC, adapter=f"{__name__}:Passing"))
    found = climb(examiner, CASE, cast(Any, Examination(DIFFERS)), resolve)
    assert found is not None and found.name == "passes" and found.cures == ("run(off=['b'])",)
    assert found.sentence == "it comes from its passes: with b off it agrees"


@pytest.mark.parametrize(
    ("threads", "answer", "expected"),
    [
        (1, "agrees", None),
        (2, "agrees", Layer("threads", "it comes from threads: with one thread it agrees", "instruction scheduling",
                            (("one thread", "agrees"),), ("it runs with one thread",), ("torch.set_num_threads(1)",))),
        (2, DIFFERS, Layer("", "it differs with one thread as well", "", (("one thread", "differs"),))),
    ],
)  # fmt: skip
def test_several_threads(threads: int, answer: str, expected: Layer | None) -> None:
    spec = PlatformSpec("threaded", f"{__name__}:Threaded", options={"threads": threads})
    examiner: Any = Examiner({repr({"threads": 1}): answer}, spec)
    seen: Any = Examination(DIFFERS)
    assert climb(examiner, CASE, seen, resolve) == expected


def test_nothing_wrong_or_an_unknown_runtime_is_nothing_to_climb() -> None:
    fine: Any = Examination("agrees")
    wrong: Any = Examination(DIFFERS)
    here: Any = Examiner({})
    elsewhere: Any = Examiner({}, PlatformSpec("elsewhere", "no_such_package:Class", python="/opt/python"))
    assert climb(here, CASE, fine, resolve) is None
    assert climb(elsewhere, CASE, wrong, resolve) is None


def test_another_platform_of_the_ladder_runs_beside_in_the_same_interpreter() -> None:
    given: list[PlatformSpec] = []

    class Watching(Examiner):
        def examine(self, case: Case, options: Any = None, platform: PlatformSpec | None = None) -> Examination:
            given.extend([platform] if platform else [])
            return super().examine(case, options, platform)

    examiner: Any = Watching({}, replace(SPEC, name="old", python="/opt/old/python", env={"A": "0", "B": "2"}))
    seen: Any = Examination(DIFFERS)
    climb(examiner, CASE, seen, resolve)
    (other,) = given
    assert (other.name, other.python, other.env) == ("standard beside old", "/opt/old/python", {"A": "1", "B": "2"})

"""Cases that differ in nothing but their inputs are prepared once and take turns; a refusal is nobody else's."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from mindgap.execution.arena import opened
from mindgap.execution.parcel import Parcel
from mindgap.execution.pool import Pool
from mindgap.platforms.crowds import CrowdRun, RunCrowd, run_crowd, structures_of
from mindgap.platforms.running import RunCases, run_cases
from mindgap.program.codec import encode
from mindgap.program.graph import Input, Node, Program, Ref
from mindgap.program.made import Whole
from mindgap.records.outcome import Outcome, Stage, Status
from mindgap.records.platform import PlatformSpec
from mindgap.records.tensors import TensorMeta
from tests.campaign import programs
from tests.platforms.turns import DEADLY, HOPELESS, REFUSED

META = TensorMeta((2,), "float32", (1,))


@pytest.fixture(scope="module")
def pool() -> Iterator[Pool]:
    with Pool() as workers:
        yield workers


def spec(name: str) -> PlatformSpec:
    return PlatformSpec(name, "tests.platforms.turns:Turns", env={"PYTHONPATH": str(programs.ROOT)})


def parcel(structure: str, number: float) -> Parcel:
    """One operator, which the first letter names, on two equal numbers."""
    op = {"n": "aten.neg.default", "a": "aten.abs.default", "s": "aten.square.default", "h": HOPELESS}[structure[:1]]
    program = Program(
        f"{structure} {number}", (Input(0, "x", META),), (), (Node(1, op, (Ref(0),), {}, META),), (Ref(1),),
        (Whole(0, "x", int(number), int(number) + 1),),
    )  # fmt: skip
    return Parcel(encode(program, compression=0), structure=structure)


def settled(
    pool: Pool, name: str, cases: list[Parcel], tmp_path: Path, apart: bool, asked: PlatformSpec | None = None
) -> list[Outcome]:
    files = tuple(str(tmp_path / f"{name}{number}") for number in range(len(cases)))
    answers: list[CrowdRun] = []
    pool.ask(asked or spec(name), run_crowd, RunCrowd(tuple(cases), files, apart), on_item=answers.append)
    assert not any(answer.failure for answer in answers)
    return [outcome for answer in answers for outcome in answer.outcomes if outcome is not None]


CASES = [parcel("neg", 1), parcel("neg", REFUSED), parcel("neg", 3), parcel("abs", -1), parcel("abs", -2)]


@pytest.mark.parametrize("apart", [False, True])
def test_a_structure_is_prepared_once_and_each_case_has_its_own_outputs(
    pool: Pool, tmp_path: Path, apart: bool
) -> None:
    found = settled(pool, f"once{apart}", CASES, tmp_path, apart)
    assert [outcome.status for outcome in found] == [Status.OK, Status.REJECTED, Status.OK, Status.OK, Status.OK]
    assert (found[1].stage, found[1].message) == (Stage.RUN, "seven is refused")
    values = [opened(outcome).outputs[0].tensor.tolist() for outcome in found if outcome.ok]
    assert values == [[-1, -1], [-3, -3], [1, 1], [2, 2]]
    assert len({outcome.note for outcome in found if outcome.ok}) == (2 if apart else 1)


def test_where_every_turn_fails_the_crowd_says_so_and_is_halved(pool: Pool, tmp_path: Path) -> None:
    files = tuple(str(tmp_path / str(number)) for number in range(2))
    request = RunCrowd((parcel("neg", REFUSED), parcel("abs", 1)), files)
    answers: list[CrowdRun] = []
    pool.ask(spec("halved"), run_crowd, request, on_item=answers.append)
    (answer,) = answers
    assert answer.failure is not None and answer.outcomes == (None, None)


def test_what_eager_refuses_runs_in_a_copy_and_ends_nobody_else(pool: Pool, tmp_path: Path) -> None:
    cases = (
        parcel("neg", 1), parcel("neg", DEADLY), parcel("neg", 5), parcel("abs", -1),
        parcel("square", DEADLY), parcel("square", 3), parcel("square", REFUSED),
    )  # fmt: skip
    files = tuple(str(tmp_path / f"risky{number}") for number in range(len(cases)))
    answers: list[CrowdRun] = []
    request = RunCrowd(cases, files, risky=(1, 2, 4, 5, 6))
    pool.ask(spec("risky"), run_crowd, request, on_item=answers.append)
    found = [outcome for answer in answers for outcome in answer.outcomes if outcome is not None]
    assert [outcome.status.value for outcome in found] == ["ok", "crash", "ok", "ok", "crash", "ok", "rejected"]
    assert [outcome.message for outcome in (found[1], found[4])] == ["killed by SIGSEGV (segmentation fault)"] * 2
    values = [opened(outcome).outputs[0].tensor.tolist()[0] for outcome in found if outcome.ok]
    assert values == [-1, -5, 1, 9]


def test_after_a_death_copies_find_out_who_ends_them(pool: Pool, tmp_path: Path) -> None:
    cases = (
        parcel("neg", 1), parcel("neg", 2), parcel("square", 2), parcel("square", DEADLY), parcel("square", 3),
        parcel("abs", REFUSED), parcel("abs", -1), parcel("hopeless", 1),
    )  # fmt: skip
    files = tuple(str(tmp_path / f"guarded{number}") for number in range(len(cases)))
    answers: list[CrowdRun] = []
    pool.ask(spec("guarded"), run_crowd, RunCrowd(cases, files, guarded=True), on_item=answers.append)
    (answer,) = answers
    found = [outcome.status.value if outcome is not None else "" for outcome in answer.outcomes]
    assert found == ["ok", "ok", "ok", "crash", "ok", "rejected", "ok", "unsupported"]
    assert answer.failure is None


def test_what_is_surely_refused_is_prepared_alone_and_costs_nobody_a_second_try(pool: Pool, tmp_path: Path) -> None:
    cases = [parcel("neg", 1), parcel("hopeless", 2), parcel("hopeless", 3), parcel("abs", -1)]
    found = settled(pool, "hopeless", cases, tmp_path, apart=False)
    assert [outcome.status for outcome in found] == [Status.OK, Status.UNSUPPORTED, Status.UNSUPPORTED, Status.OK]
    assert found[0].note == found[3].note == "prepared 1"


def test_apart_a_death_costs_only_the_case_that_was_running(pool: Pool, tmp_path: Path) -> None:
    cases = (parcel("neg", 1), parcel("neg", DEADLY), parcel("neg", 3))
    answers: list[CrowdRun] = []
    request = RunCrowd(cases, tuple(str(tmp_path / str(n)) for n in range(3)), apart=True)
    pool.ask(spec("deadly"), run_crowd, request, on_item=answers.append)
    assert [outcome.ok for answer in answers for outcome in answer.outcomes] == [True]


def test_a_case_that_names_no_structure_is_alone_in_its_own() -> None:
    bare = replace(parcel("neg", 1), structure="")
    assert structures_of([bare, parcel("neg", 1), bare, parcel("neg", 2)]) == [[0], [1, 3], [2]]


def test_one_by_one_a_structure_is_prepared_once_too(pool: Pool, tmp_path: Path) -> None:
    cases = (parcel("neg", 1), parcel("neg", 2), parcel("abs", 1), parcel("neg", 3))
    request = RunCases(cases, tuple(str(tmp_path / f"one{n}") for n in range(4)), runs=2)
    found: list[Outcome] = []
    pool.ask(spec("again"), run_cases, request, on_item=found.append)
    assert all(outcome.stable for outcome in found)
    assert [outcome.note for outcome in found] == ["prepared 1", "prepared 1", "prepared 2", "prepared 3"]
    assert [opened(outcome).outputs[0].tensor.tolist()[0] for outcome in found] == [-1, -2, 1, -3]


def test_a_refusal_of_the_cheaper_way_is_asked_for_again_once_per_kind(pool: Pool, tmp_path: Path) -> None:
    cases = tuple(parcel(name, n) for n, name in enumerate(("hopeless", "square", "hopeless", "square", "neg")))
    request = RunCases(cases, tuple(str(tmp_path / f"hasty{n}") for n in range(5)), cheaper=True)
    hasty = replace(spec("hasty"), adapter="tests.platforms.turns:Hasty")
    found: list[Outcome] = []
    pool.ask(hasty, run_cases, request, on_item=found.append)
    assert [outcome.message for outcome in found if not outcome.ok] == ["it is hopeless", "it is hopeless in a hurry"]
    assert [outcome.ok for outcome in found] == [False, True, False, True, True], "what users can run is never refused"


def test_what_whole_programs_share_is_made_once_for_all_of_a_request(pool: Pool, tmp_path: Path) -> None:
    cases = tuple(parcel(name, n) for n, name in enumerate(("neg", "abs", "neg")))
    files = tuple(str(tmp_path / f"shared{n}") for n in range(3))
    hasty = replace(spec("shared"), adapter="tests.platforms.turns:Hasty")
    for cheaper, notes in ((False, ["foreseen []"] * 3), (True, ["foreseen [3]"] * 3)):
        found: list[Outcome] = []
        pool.ask(hasty, run_cases, RunCases(cases, files, cheaper=cheaper), on_item=found.append)
        assert [outcome.note for outcome in found] == notes


def elsewhere(share: float, **options: object) -> PlatformSpec:
    adapter = "tests.platforms.turns:Elsewhere"
    return replace(spec(f"elsewhere{share:g}"), adapter=adapter, options={"share": share, **options})


def test_what_ran_elsewhere_is_told_where_it_is_known(pool: Pool, tmp_path: Path) -> None:
    cases, some = [parcel("neg", 1), parcel("abs", -1)], elsewhere(0.25)
    for outcome in (
        *settled(pool, some.name, cases[:1], tmp_path, False, some),
        *settled(pool, some.name, cases, tmp_path, True, some),
    ):
        assert outcome.fallback == 0.25 and outcome.note == "25% of its operators ran on somebody else"
    for outcome in settled(pool, some.name, cases, tmp_path, False, some):
        assert outcome.fallback is None
        assert outcome.note == "25% of the operators of its crowd of 2 ran on somebody else"
    all_of_it = elsewhere(1.0)
    for outcome in settled(pool, all_of_it.name, cases, tmp_path, False, all_of_it):
        assert outcome.fallback == 1.0 and outcome.note == "100% of its operators ran on somebody else"


@pytest.mark.parametrize("apart", [False, True])
def test_a_fallback_that_is_forbidden_is_a_refusal_in_a_crowd_too(pool: Pool, tmp_path: Path, apart: bool) -> None:
    strict = elsewhere(0.5, fallback="forbid")
    (found,) = settled(pool, strict.name, [parcel("neg", 1)], tmp_path, apart, strict)
    assert found.status is Status.UNSUPPORTED and "which is forbidden" in found.message

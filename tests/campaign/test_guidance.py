"""What a platform takes next: what is new to it, and what lies near to what it got wrong and nobody has explained."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from mindgap.campaign.dossier import NumberedVariant
from mindgap.campaign.guidance import HALF_LIFE, Guidance, facets
from mindgap.campaign.known import Known
from mindgap.campaign.ledger import Ledger
from mindgap.campaign.reader import findings_of
from mindgap.execution.parcel import Parcel
from mindgap.records.outcome import Outcome, Stage, Status
from mindgap.records.variant import Provenance
from mindgap.records.verdict import Kind
from tests.campaign import herd
from tests.campaign.test_crowds import plan, run


def fragment(*operators: str, structure: str = "", dtype: str = "float32", values: str = "nan") -> NumberedVariant:
    contexts = tuple(f"aten.{op} {dtype} | 1 dense % even own {values}" for op in operators)
    made = Provenance("b", "b", 0, mutations=("apply",), is_fragment=True)
    return NumberedVariant(0, "", "", 1, Parcel(structure=structure or "+".join(operators) + dtype), made, contexts)


def covered(guidance: Guidance, *operators: str, times: int = 4) -> Guidance:
    for number in range(times):
        for op in operators:
            guidance.takes(fragment(op, structure=f"{op} {number}"))
    return guidance


def rank(guidance: Guidance, *operators: str) -> list[str]:
    """The operators, those that a busy platform would rather take first."""
    return sorted(operators, key=lambda op: -guidance._score(fragment(op)))


def test_what_is_new_goes_before_what_was_often_there() -> None:
    guidance = covered(Guidance(), "a.x")
    assert rank(guidance, "a.x", "b.x") == ["b.x", "a.x"]
    new_class = guidance._score(fragment("a.x", values="zeros"))
    assert guidance._score(fragment("a.x")) < new_class < guidance._score(fragment("b.x"))


def test_a_mutation_that_finds_more_in_the_platforms_time_goes_before_others() -> None:
    guidance = Guidance()
    slow = Outcome("herd", Status.OK, Stage.RUN, seconds={Stage.RUN.value: 600.0})

    def by(mutation: str, op: str) -> NumberedVariant:
        here = fragment(op)
        return replace(here, provenance=replace(here.provenance, mutations=(mutation,)))

    for number in range(4):
        guidance.settled(by("overwrite", f"bad{number}.x"), slow)
        guidance.diverged(by("overwrite", f"bad{number}.x"))
        guidance.settled(by("apply", f"good{number}.x"), slow)
    scores = [guidance._score(by(mutation, "new.x")) for mutation in ("overwrite", "never seen", "apply")]
    assert scores == sorted(set(scores), reverse=True) and scores[-1] > 0


def test_a_busy_platform_takes_the_better_half_and_an_idle_one_all() -> None:
    guidance = covered(Guidance(), "a.x")
    asked = [fragment("ab"[n % 2] + ".x", structure=str(n)) for n in range(40)]
    taken = [variant.contexts[0][5] for variant in asked if guidance.wants(variant, pressed=True)]
    assert taken.count("b") == 20 and taken.count("a") <= 1
    assert all(guidance.wants(replace(v, parcel=Parcel(structure=v.parcel.structure + "!")), False) for v in asked)


def test_the_rounds_of_a_structure_go_together() -> None:
    guidance = covered(Guidance(), "a.x")
    guidance.wants(fragment("b.x", structure="s"), pressed=True)
    assert guidance.wants(fragment("a.x", structure="s"), pressed=True), "it is compiled anyhow"
    assert not guidance.wants(fragment("a.x", structure="t"), pressed=True)
    assert not guidance.wants(fragment("c.x", structure="t"), pressed=False), "its first round is left as well"


def test_what_is_refused_waits_however_new_it_is() -> None:
    guidance = Guidance()
    guidance.settled(fragment("a.x"), Outcome("p", Status.UNSUPPORTED, Stage.CONVERT, "cannot do it"))
    assert not guidance.wants(fragment("a.x"), pressed=False)


def test_only_the_operator_at_fault_is_dug_for_in_every_overload() -> None:
    guidance = covered(Guidance(), "a.x", "a_.y", "b.x")
    guidance.diverged(fragment("a.x", "b.x"), "aten.a.x", Kind.VALUE)
    assert rank(guidance, "b.x", "a_.y")[0] == "a_.y"
    assert guidance._score(fragment("c.x")) < guidance._score(fragment("a.x"))


def test_where_none_is_named_all_are_a_little_suspicious() -> None:
    guidance = covered(Guidance(), "a.x", "b.x", "c.x")
    guidance.diverged(fragment("a.x", "b.x"), "", Kind.VALUE)
    assert rank(guidance, "c.x", "b.x")[0] == "b.x"
    before = guidance._score(fragment("a.x"))
    guidance.traced("aten.a.x")
    assert guidance._score(fragment("a.x")) > before


def test_other_operators_on_the_same_numbers_are_neighbours() -> None:
    guidance = covered(Guidance(), "a.x", "b.x")
    guidance.diverged(fragment("a.x"), "aten.a.x", Kind.NONFINITE)
    assert guidance._warmth(fragment("b.x").contexts[0]) > guidance._warmth(fragment("b.x", values="zeros").contexts[0])


def test_heat_fades() -> None:
    guidance = covered(Guidance(), "a.x")
    guidance.diverged(fragment("a.x"), "aten.a.x", Kind.VALUE)
    hot = guidance._warmth(fragment("a.x").contexts[0])
    covered(guidance, "z.x", times=HALF_LIFE)
    assert guidance._warmth(fragment("a.x").contexts[0]) == pytest.approx(hot / 2)


def test_an_explained_cause_is_cold_and_stays_cold_but_another_kind_is_new() -> None:
    guidance = covered(Guidance(), "a.x")
    guidance.diverged(fragment("a.x"), "aten.a.x", Kind.VALUE)
    guidance.settled_by(["aten.a.x"], Kind.VALUE.value)
    cold = guidance._heat_of("a")
    guidance.diverged(fragment("a.x"), "aten.a.x", Kind.VALUE)
    assert cold == guidance._heat_of("a") == 0.0
    guidance.diverged(fragment("a.x"), "aten.a.x", Kind.INTEGER)
    assert guidance._heat_of("a") > 0


def test_facets_tell_half_new_from_new() -> None:
    one, other = "aten.a.x float32 | 1 dense % even own nan", "aten.a.x float32 | 2 dense % even own nan"
    assert len(set(facets(one)) & set(facets(other))) == 2
    assert list(facets("aten.a.x int64 | 1 dense  even own negative positions"))[1].endswith("negative positions")


@pytest.fixture(scope="module")
def ended(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    directory = tmp_path_factory.mktemp("guidance")
    run(directory, plan())
    yield directory


def recalled(directory: Path, known: list[Known]) -> Guidance:
    guidance = Guidance()
    with Ledger(directory, new=False) as ledger:
        [(number,)] = ledger.data.execute("SELECT id FROM platforms WHERE name = 'herd'").fetchall()
        guidance.recall(ledger.data, number, "herd", findings_of(ledger.data, known))
    return guidance


def test_a_campaign_that_goes_on_knows_where_it_found_something(ended: Path) -> None:
    guidance = recalled(ended, [])
    assert guidance._heat_of(herd.WRONG.split(".")[1]) > 0 and guidance._spent_s
    assert not guidance.confirms((herd.WRONG, Kind.VALUE)), "it showed alone before"


def test_what_is_known_elsewhere_is_not_dug_for(ended: Path) -> None:
    guidance = recalled(ended, [Known("x-1", re.compile(re.escape(herd.WRONG)))])
    assert not guidance._heat_of(herd.WRONG.split(".")[1])

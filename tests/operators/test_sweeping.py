"""A sweep on a platform that is wrong, refuses and dies by operator: each fault is graded, none ends the sweep."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from mindgap.campaign.plan import Plan
from mindgap.campaign.reader import open_ledger
from mindgap.corpus.spelling import SMOKE
from mindgap.errors import UsageError
from mindgap.operators.observed import Grade, Observed, read_sweep, shares
from mindgap.operators.sweeping import sweep, universe
from mindgap.operators.universe import models_of
from mindgap.records.variant import EMPTY, KINDS, SPECIAL, Sweep
from mindgap.variants.base import load_bases
from mindgap.variants.invocations import Invoking
from mindgap.variants.streaming import described
from tests.campaign import herd
from tests.campaign.test_crowds import config

OPS = (herd.DEADLY, "aten.neg.default", herd.WRONG, herd.REFUSED, "aten.bitwise_not.default", herd.UNCHECKED)


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> Observed:
    directory = tmp_path_factory.mktemp("sweep") / "ops"
    ending = sweep(directory, ["herd"], OPS, ["float32", "int64"], kinds=("ordinary", "invalid"), config=config())
    assert ending.complete
    return read_sweep(directory)


@pytest.mark.parametrize(
    ("op", "grade"),
    [
        (herd.DEADLY, Grade.CRASH),  # it is the first call of the sweep
        (herd.WRONG, Grade.WRONG),
        (herd.REFUSED, Grade.UNSUPPORTED),
        ("aten.neg.default", Grade.AGREES),
        ("aten.bitwise_not.default", Grade.NOT_EXERCISED),
    ],
)
def test_each_fault_has_its_grade(found: Observed, op: str, grade: Grade) -> None:
    assert found.cell("herd", op, "float32").grade is grade


def test_what_eager_refuses_and_the_platform_takes_is_accepted_invalid_input(found: Observed) -> None:
    cell = found.cell("herd", herd.UNCHECKED, "float32")
    assert cell.invocations.get(Grade.ACCEPTS_INVALID.value) == 1


def test_an_operator_counts_only_in_dtypes_that_eager_takes(found: Observed) -> None:
    assert ("aten.bitwise_not.default", "float32") not in found.exercised
    assert ("aten.bitwise_not.default", "int64") in found.exercised


def test_a_wrong_result_was_confirmed_alone(found: Observed) -> None:
    assert found.cell("herd", herd.WRONG, "float32").confirmed
    assert not found.cell("herd", "aten.neg.default", "float32").confirmed


def test_a_cell_is_shown_alone_once_for_each_kind_of_difference(tmp_path: Path) -> None:
    kinds = ("ordinary", *(SPECIAL,) * 4)
    assert sweep(tmp_path, ["herd"], [herd.WRONG], ["float32", "float64"], kinds=kinds, config=config()).complete
    found = read_sweep(tmp_path)
    for dtype in ("float32", "float64"):
        cell = found.cell("herd", herd.WRONG, dtype)
        assert cell.grade is Grade.WRONG and cell.confirmed and cell.invocations["wrong"] > 2
    with open_ledger(tmp_path) as data:
        asked, shown = data.execute(
            "SELECT COUNT(stable), COUNT(DISTINCT v.kind) FROM outcomes o JOIN verdicts v USING (program, platform) "
            "WHERE v.conclusion = 'diverges'"
        ).fetchone()
    assert asked == 2 * shown  # not one for each wrong invocation


def test_what_goes_wrong_without_elements_only_is_told_apart(tmp_path: Path) -> None:
    asked = ["aten.neg.default"]
    assert sweep(tmp_path, ["herd"], asked, ["float32"], kinds=("ordinary", EMPTY), config=config()).complete
    for program, told in ((1, True), (0, False)):
        with sqlite3.connect(tmp_path / "ledger.sqlite") as data:
            data.execute("UPDATE verdicts SET conclusion = 'diverges', kind = 'shape', blame = 'candidate' "
                         "WHERE program = ?", (program,))  # fmt: skip
        cell = read_sweep(tmp_path).cell("herd", asked[0], "float32")
        assert (cell.grade, cell.only_exceptional) == (Grade.WRONG, told)


def test_a_platform_that_dies_on_every_call_ends_no_sweep(tmp_path: Path) -> None:
    asked = ("aten.neg.default", "aten.tanh.default", "aten.add.Tensor")
    kinds = ("ordinary", SPECIAL, SPECIAL)
    assert sweep(tmp_path, ["herd"], asked, ["float32"], kinds=kinds, config=config("Dying")).complete
    found = read_sweep(tmp_path)
    assert {found.cell("herd", op, "float32").grade for op in asked} == {Grade.CRASH}
    (share,) = shares(found, {})
    assert (share.exercised, share.running, share.fewer_percent) == (3, 0, 100.0)


def test_a_sweep_goes_on_with_another_platform(tmp_path: Path) -> None:
    asked = ("aten.neg.default", "aten.tanh.default")
    first = sweep(tmp_path, ["eager@nomkldnn"], asked, ["float32"], kinds=("ordinary",), config=config())
    more = sweep(tmp_path, ["herd"], asked, ["float32"], kinds=("ordinary",), config=config())
    assert first.complete and more.complete
    found = read_sweep(tmp_path)
    assert found.platforms == ("eager@nomkldnn", "herd")
    assert found.cell("herd", herd.WRONG, "float32").grade is Grade.WRONG
    assert found.cell("eager@nomkldnn", herd.WRONG, "float32").grade is Grade.AGREES


def test_a_campaign_of_variants_is_no_sweep(tmp_path: Path) -> None:
    with pytest.raises(UsageError):
        read_sweep(tmp_path)


def test_a_plan_with_a_sweep_survives_its_text() -> None:
    plan = Plan(("eager",), 4, sweep=Sweep(("aten.add.Tensor",), ("float32", "int64"), ("ordinary", "edge")))
    assert Plan.from_text(plan.to_text()) == plan


def test_every_operator_comes_once_in_all_its_rounds_before_any_comes_again() -> None:
    sweep = Sweep(("a", "b", "c"), ("x", "y"), KINDS)
    asked = [sweep.asked(number) for number in range(sweep.count)]
    rounds = 1 + KINDS.count(SPECIAL)
    assert {item.kind for item in asked[: 6 * rounds]} == {KINDS[0], SPECIAL}
    assert [(item.op, item.turn) for item in asked[:rounds]] == [("a", turn) for turn in range(rounds)]
    assert len({(item.op, item.dtype, item.kind, item.turn) for item in asked}) == sweep.count == 6 * len(KINDS)
    with pytest.raises(IndexError):
        sweep.asked(sweep.count)


def test_rounds_are_the_same_call_on_other_values() -> None:
    sweep = Sweep(("aten.add.Tensor", "aten.cumsum.default"), ("float32",), ("ordinary", SPECIAL, SPECIAL))
    invoking = Invoking(sweep, [], 0)
    for first in (0, 3):
        made = [invoking.make(first + turn) for turn in range(3)]
        variants = [variant for variant in made if variant is not None]
        assert len(variants) == 3 and len({described(variant).structure for variant in variants}) == 1
        assert len({variant.program.example for variant in variants}) == 3
        assert len({variant.provenance.values for variant in variants}) == 3
        assert [variant.provenance.focus[2] for variant in variants] == ["ordinary", SPECIAL, SPECIAL]


def test_what_models_need_most_comes_first() -> None:
    models = models_of()
    found = universe(models)
    assert found[: len(models.counts)] == list(models.counts) and len(found) > 700 and len(found) == len(set(found))


def test_an_invocation_is_one_call_and_always_the_same() -> None:
    bases = load_bases([f"smoke:{path.stem}" for path in sorted(SMOKE.glob("*.mgp"))[:2]])
    asked = Sweep(("aten.where.self", "aten.softmax.int", "aten.relu_.default"), ("float32", "int64"), KINDS)
    for number in range(asked.count):
        made, again = Invoking(asked, bases, 7).make(number), Invoking(asked, bases, 7).make(number)
        assert made == again
        if made is not None:
            calls = [node.op for node in made.program.nodes if node.op != "operator.getitem"]
            assert calls == [asked.asked(number).op]


def test_no_invocation_draws_numbers() -> None:
    asked = Sweep(
        ("aten.dropout.default", "aten.scaled_dot_product_attention.default", "aten.rand.default"), ("float32",)
    )
    made = {number: Invoking(asked, [], 3).make(number) for number in range(asked.count)}
    calls = [variant.program.nodes[0] for variant in made.values() if variant is not None]
    assert {node.op for node in calls} == {"aten.dropout.default", "aten.scaled_dot_product_attention.default"}
    assert all(node.args[2] is False for node in calls if node.op == "aten.dropout.default")

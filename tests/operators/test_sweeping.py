"""A sweep on a platform that is wrong, refuses and dies by operator: each fault is graded, none ends the sweep."""

from __future__ import annotations

from pathlib import Path

import pytest

from mindgap.campaign.plan import Plan
from mindgap.corpus.spelling import SMOKE
from mindgap.errors import UsageError
from mindgap.operators.observed import Grade, Observed, read_sweep
from mindgap.operators.sweeping import sweep, universe
from mindgap.operators.universe import models_of
from mindgap.records.variant import KINDS, Sweep
from mindgap.variants.base import load_bases
from mindgap.variants.invocations import Invoking
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


def test_every_operator_comes_once_before_any_comes_again() -> None:
    asked = Sweep(("a", "b", "c"), ("x", "y"), KINDS)
    first = [asked.asked(number) for number in range(6)]
    assert len(set(first)) == 6 and {kind for _, _, kind in first} == {KINDS[0]}
    assert asked.count == 6 * len(KINDS)


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
            assert calls == [asked.asked(number)[0]]


def test_no_invocation_draws_numbers() -> None:
    asked = Sweep(
        ("aten.dropout.default", "aten.scaled_dot_product_attention.default", "aten.rand.default"), ("float32",)
    )
    made = {number: Invoking(asked, [], 3).make(number) for number in range(asked.count)}
    calls = [variant.program.nodes[0] for variant in made.values() if variant is not None]
    assert {node.op for node in calls} == {"aten.dropout.default", "aten.scaled_dot_product_attention.default"}
    assert all(node.args[2] is False for node in calls if node.op == "aten.dropout.default")

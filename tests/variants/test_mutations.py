"""Each mutation keeps its promise on real programs."""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest
import torch

from mindgap.program.graph import Input, Node, Program, Ref, check_references
from mindgap.program.made import Made, Whole
from mindgap.records.tensors import TensorMeta
from mindgap.records.variant import Intent
from mindgap.variants.base import Base, load_bases, prepare
from mindgap.variants.draft import Draft
from mindgap.variants.registry import Family, Mutation, by_intent, registered
from mindgap.variants.rules import Refused, RuleTable
from mindgap.variants.values import contiguous_stride
from tests.program.validating import check_operators
from tests.variants.running import run

RULES = RuleTable()


@pytest.fixture(scope="session")
def wide() -> list[Base]:
    """Bases with every kind of node that a mutation needs: convolutions, indices, in-place operators, norms."""
    names = ("rl-actor-critic", "graph-gcn", "diffusion-unet", "tabular-ft-transformer", "vision-resnet")
    return load_bases([f"smoke:{name}" for name in names])


def attempts(one: Mutation, bases: list[Base], count: int) -> list[tuple[Base, Draft]]:
    found = []
    for seed in range(count):
        base = bases[seed % len(bases)]
        draft = Draft(base, RULES, Random(seed), bases[(seed + 1) % len(bases)])
        try:
            draft.steps.append(one.change(draft))
            draft.settle()
        except Refused:
            continue
        found.append((base, draft))
    return found


@pytest.mark.parametrize("one", by_intent(registered(), Intent.VALID), ids=lambda one: one.name)
def test_a_valid_mutation_gives_programs_that_run(one: Mutation, wide: list[Base]) -> None:
    made = attempts(one, wide, 25)
    assert made, "it never fits"
    failed = []
    for base, draft in made:
        program = draft.build("p")
        check_references(program)
        check_operators(program)
        assert program != base.program
        try:
            run(program)
        except (RuntimeError, IndexError) as error:
            failed.append(f"{base.name}: {draft.steps}: {error}")
    assert len(failed) <= len(made) // 10, failed


@pytest.mark.parametrize("one", by_intent(registered(), Intent.EQUIVALENT), ids=lambda one: one.name)
def test_an_equivalent_mutation_keeps_the_values(one: Mutation, wide: list[Base]) -> None:
    made = attempts(one, wide, 20)
    assert made, "it never fits"
    for base, draft in made:
        for before, after in zip(run(base.program), run(draft.build("p"))):
            assert torch.allclose(after, before, rtol=1e-3, atol=1e-4, equal_nan=True), draft.steps


@pytest.mark.parametrize("one", by_intent(registered(), Intent.INVALID), ids=lambda one: one.name)
def test_an_invalid_mutation_is_rejected_by_eager(one: Mutation, wide: list[Base]) -> None:
    made = attempts(one, wide, 40)
    assert made, "it never fits"
    for _, draft in made:
        with pytest.raises((RuntimeError, IndexError, ValueError, TypeError)):
            run(draft.build("p"))


def test_every_mutation_is_documented_and_every_family_is_there() -> None:
    known = registered()
    assert {one.family for one in known} == set(Family)
    for one in known:
        assert len(one.summary) > 10 and one.needs and one.weight > 0
    assert max(Counter(one.name for one in known).values()) == 1


def one_call(op: str, shapes: dict[str, tuple[int, ...]], *rest: object) -> Base:
    """A program of one call on inputs of these shapes; those called `whole` hold integers."""
    inputs, example = [], []
    for number, (name, shape) in enumerate(shapes.items()):
        whole = name.startswith("whole")
        meta = TensorMeta(shape, "int64" if whole else "float32", contiguous_stride(shape))
        inputs.append(Input(number, name, meta))
        example.append(Whole(0, name, 0, 1) if whole else Made(0, name, -1.0, 1.0))
    node = Node(len(inputs), op, (*(Ref(item.id) for item in inputs), *rest), {})
    program = Program("one", tuple(inputs), (), (node,), (Ref(node.id),), tuple(example))
    return prepare("one", program, {})


def by_name(name: str) -> Mutation:
    return next(one for one in registered() if one.name == name)


def test_numbers_that_stand_for_names_stay_names() -> None:
    base = one_call("aten.grid_sampler_2d.default", {"x": (1, 1, 4, 4), "grid": (1, 2, 2, 2)}, 0, 0, False)
    made = [draft.build("p").nodes[-1].args[2:4] for _, draft in attempts(by_name("change-literal"), [base], 60)]
    assert {mode for mode, _ in made} == {padding for _, padding in made} == {0, 1, 2}


def test_offsets_stay_in_order() -> None:
    shapes = {"weight": (9, 4), "whole indices": (6,), "whole offsets": (3,)}
    base = one_call("aten.embedding_bag.default", shapes)
    planted = [draft.steps[-1] for _, draft in attempts(by_name("special-inputs"), [base], 60)]
    assert planted and not any(step.endswith("offsets") for step in planted)

"""A fingerprint tells what is computed, and nothing else."""

from __future__ import annotations

from dataclasses import replace

import torch
from hypothesis import given
from hypothesis import strategies as st

from mindgap.program.fingerprint import fingerprint
from mindgap.program.graph import Constant, Input, Node, Program, Ref, map_leaves
from mindgap.records.tensors import TensorMeta

META = TensorMeta((2, 3), "float32", (3, 1))
OTHER = TensorMeta((2, 3), "float32", (1, 2))


def small(factor: object = 2.0, ids: tuple[int, ...] = (0, 1, 2, 3, 4)) -> Program:
    x, y, w, product, total = ids
    return Program(
        "p",
        (Input(x, "x", META), Input(y, "y", META)),
        (Constant(w, "weight", META, "00" * 12),),
        (
            Node(product, "aten.mul.Tensor", (Ref(x), factor), {}, META, "layer"),
            Node(total, "aten.add.Tensor", (Ref(product), Ref(w)), {"alpha": 1}, META),
        ),
        {"y": Ref(total)},
    )


def renumbered(program: Program, numbers: dict[int, int]) -> Program:
    def change(leaf: object) -> object:
        return Ref(numbers[int(leaf)]) if isinstance(leaf, Ref) else leaf

    return replace(
        program,
        inputs=tuple(replace(item, id=numbers[item.id]) for item in program.inputs),
        constants=tuple(replace(item, id=numbers[item.id]) for item in program.constants),
        nodes=tuple(replace(node, id=numbers[node.id], args=map_leaves(node.args, change)) for node in program.nodes),
        outputs=map_leaves(program.outputs, change),
    )


@given(st.permutations(range(100, 105)))
def test_renumbering_changes_nothing(ids: list[int]) -> None:
    program = small()
    assert fingerprint(renumbered(program, dict(enumerate(ids)))) == fingerprint(program)


literals = st.one_of(st.integers(-9, 9), st.floats(allow_nan=False), st.booleans(), st.sampled_from([torch.float16]))


@given(literals, literals)
def test_a_literal_counts(first: object, second: object) -> None:
    same = (type(first), repr(first)) == (type(second), repr(second))
    assert (fingerprint(small(first)) == fingerprint(small(second))) is same


def test_names_weights_and_layouts_do_not_count() -> None:
    program = small()
    renamed = replace(
        program,
        name="q",
        inputs=tuple(replace(item, name=f"{item.name}2", meta=OTHER) for item in program.inputs),
        constants=tuple(replace(item, name="v", digest="11" * 12) for item in program.constants),
        nodes=tuple(replace(node, where="elsewhere") for node in program.nodes),
        outputs={"z": program.outputs["y"]},
    )
    assert fingerprint(renamed) == fingerprint(program)


def test_wiring_operators_shapes_and_dtypes_count() -> None:
    program = small()
    first, second = program.nodes
    wide = TensorMeta((2, 4), "float32", (4, 1))
    half = TensorMeta((2, 3), "float16", (3, 1))
    variants = [
        replace(program, nodes=(replace(first, args=(Ref(1), 2.0)), second)),
        replace(program, nodes=(replace(first, op="aten.div.Tensor"), second)),
        replace(program, nodes=(replace(first, meta=wide), second)),
        replace(program, nodes=(first, replace(second, kwargs={"alpha": 2}))),
        replace(program, constants=(replace(program.constants[0], meta=half),)),
        replace(program, inputs=(program.inputs[0], replace(program.inputs[1], meta=half))),
        replace(program, outputs={"y": Ref(3)}),
    ]
    assert len({fingerprint(item) for item in (program, *variants)}) == len(variants) + 1

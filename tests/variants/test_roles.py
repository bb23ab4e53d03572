"""Arguments by role: what a call computes with, and calls whose index, mask or weight has another dtype."""

from __future__ import annotations

import pytest

from mindgap.program.graph import Input, Node, Program, Ref
from mindgap.records.tensors import TensorMeta
from mindgap.records.variant import Sweep
from mindgap.variants.invocations import Invoking
from mindgap.variants.roles import arguments_in, main_dtype, must_ascend, takes_role
from mindgap.variants.synthesis import Variant


def call(op: str, *dtypes: str) -> Program:
    inputs = tuple(Input(n, f"x{n}", TensorMeta((2,), dtype, (1,))) for n, dtype in enumerate(dtypes))
    node = Node(len(dtypes), op, tuple(Ref(n) for n in range(len(dtypes))), {})
    return Program("call", inputs, (), (node,), (Ref(node.id),), ())


def made(op: str, dtype: str, kind: str) -> Variant | None:
    return Invoking(Sweep((op,), (dtype,), (kind,)), [], 0).make(0)


def dtypes_in(variant: Variant, role: str) -> set[str]:
    chosen = arguments_in(variant.program, role)
    return {item.meta.dtype for item in variant.program.given() if item.id in chosen}


def test_a_condition_is_not_what_a_call_computes_with() -> None:
    assert main_dtype(call("aten.where.self", "bool", "float32", "float32")) == "float32"
    assert main_dtype(call("aten.logical_not.default", "bool")) == "bool"
    assert arguments_in(call("aten.where.self", "bool", "float32", "float32"), "mask") == {0}


def test_offsets_must_ascend() -> None:
    assert must_ascend(call("aten.embedding_bag.default", "float32", "int64", "int64").nodes) == {2}
    assert not must_ascend(call("aten.gather.default", "float32", "int64", "int64").nodes)


@pytest.mark.parametrize(("op", "role", "has"), [
    ("aten.gather.default", "index", True), ("aten.where.self", "mask", True),
    ("aten.layer_norm.default", "weight", True), ("aten.add.Tensor", "index", False),
])  # fmt: skip
def test_roles_come_from_the_names_in_the_schema(op: str, role: str, has: bool) -> None:
    assert takes_role(op, role) is has


@pytest.mark.parametrize(("op", "dtype", "kind"), [
    ("aten.gather.default", "float32", "index int32"),
    ("aten.where.self", "float32", "mask uint8"),
    ("aten.layer_norm.default", "bfloat16", "weight float32"),
])  # fmt: skip
def test_one_role_gets_another_dtype_and_the_call_keeps_its_own(op: str, dtype: str, kind: str) -> None:
    found = made(op, dtype, kind)
    assert found is not None and main_dtype(found.program) == dtype
    assert dtypes_in(found, kind.split()[0]) == {kind.split()[1]}


@pytest.mark.parametrize(("op", "dtype", "kind"), [
    ("aten.relu.default", "float32", "index int32"),  # no such argument
    ("aten.layer_norm.default", "float32", "weight float32"),  # it is usual there
    ("aten.masked_fill.Scalar", "float32", "mask uint8"),  # eager refuses it
])  # fmt: skip
def test_what_is_usual_or_refused_by_eager_is_not_made(op: str, dtype: str, kind: str) -> None:
    assert made(op, dtype, kind) is None


@pytest.mark.parametrize("op", ["aten.where.self", "aten.logical_and.default"])
def test_an_operator_on_conditions_is_asked_in_the_dtype_of_its_numbers(op: str) -> None:
    found = made(op, "float32", "ordinary")
    assert found is not None and main_dtype(found.program) == "float32"

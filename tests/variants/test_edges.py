"""Edge invocations are what their kind says, for operators with one, two and three tensors."""

from __future__ import annotations

import math

import pytest

from mindgap.records.variant import EDGES, EMPTY, EXPANDED, ODD, ONE, TURNED, Sweep
from mindgap.variants.invocations import Invoking
from mindgap.variants.synthesis import Variant

OPS = ("aten.relu.default", "aten.add.Tensor", "aten.conv2d.default", "aten.where.self", "aten.softmax.int")


def made(op: str, kind: str, dtype: str = "float32") -> Variant | None:
    return Invoking(Sweep((op,), (dtype,), (kind,)), [], 0).make(0)


@pytest.mark.parametrize(("kind", "count"), [(EMPTY, 0), (ONE, 1), (ODD, 17)])
@pytest.mark.parametrize("op", [op for op in OPS if op != "aten.where.self"])
def test_the_first_tensor_has_so_many_elements(op: str, kind: str, count: int) -> None:
    variant = made(op, kind)
    assert variant is not None and math.prod(variant.program.inputs[0].meta.shape) == count


@pytest.mark.parametrize("op", OPS)
def test_some_tensor_is_expanded_or_transposed(op: str) -> None:
    expanded, turned = made(op, EXPANDED), made(op, TURNED)
    assert expanded is not None and turned is not None
    metas = [item.meta for item in expanded.program.inputs]
    assert any(0 in meta.stride for meta in metas)
    assert all(0 not in item.meta.stride for item in turned.program.inputs)


def test_what_is_written_to_does_not_overlap() -> None:
    variant = made("aten.add_.Tensor", EXPANDED)
    assert variant is not None
    first, *others = (item.meta for item in variant.program.inputs)
    assert 0 not in first.stride and any(0 in meta.stride for meta in others)
    assert made("aten.relu_.default", EXPANDED) is None


def test_every_edge_of_every_dtype_is_always_the_same() -> None:
    for kind in EDGES:
        for dtype in ("float32", "int64", "bool"):
            assert made("aten.add.Tensor", kind, dtype) == made("aten.add.Tensor", kind, dtype)

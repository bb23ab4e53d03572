"""The ONNX exporter without what it does again for each node, although it did the same for others before.

It derives an operator's signature from its schema at each call, asks each rewrite rule at each node, and has shapes
inferred through protobuf messages. Here signatures and inferred shapes are remembered, and a rule that begins with one
operator is not asked at another. The model is the same, byte for byte: tests/platforms/test_quick_export.py.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Iterator, Mapping
from typing import Any, Final
from unittest.mock import patch

MOST_SHAPES: Final = 1 << 16
"""Some hundred bytes each."""
SMALL: Final = 20
"""Elements of a constant that the optimiser shows to shape inference; of larger ones it shows only the shape."""


@contextlib.contextmanager
def quick_export() -> Iterator[None]:
    """Translation and optimisation as before, for one process with one thread."""
    from onnx_ir.schemas import OpSignature
    from onnxscript.optimizer._constant_folding import FoldConstantsPass
    from onnxscript.rewriter._rewrite_rule import RewriteRule

    derive, ask, infer = OpSignature.from_op_schema, RewriteRule.try_rewrite, FoldConstantsPass._do_inference

    def derive_once(schema: Any) -> Any:
        key = (schema.domain, schema.name, schema.since_version)
        if key not in _signatures:
            _signatures[key] = derive(schema)
        return _signatures[key]

    def ask_where_it_may_match(rule: Any, model: Any, graph: Any, node: Any, **details: Any) -> Any:
        wanted = _first_operator(rule)
        return None if wanted is not None and wanted != node.op_type else ask(rule, model, graph, node, **details)

    def infer_once(folding: Any, node: Any) -> None:
        call = _call_of(node, folding._opset_imports)
        known = _shapes.get(call) if call is not None else None
        if known is not None:
            _describe(node, known)
            return
        infer(folding, node)
        described = _described(node)
        if call is not None and described is not None:
            if len(_shapes) >= MOST_SHAPES:
                _shapes.clear()
            _shapes[call] = described

    with (
        patch.object(OpSignature, "from_op_schema", derive_once),
        patch.object(RewriteRule, "try_rewrite", ask_where_it_may_match),
        patch.object(FoldConstantsPass, "_do_inference", infer_once),
    ):
        yield


_signatures: Final[dict[tuple[str, str, int], Any]] = {}


@functools.lru_cache(1 << 12)
def _first_operator(rule: Any) -> str | None:
    """The operator of the node that a rule is asked about; None where it takes several."""
    identifier = rule._target_pattern.output_nodes[0].op_identifier()
    return None if identifier is None else str(identifier[1])


# Shapes

_shapes: Final[dict[Any, tuple[Any, ...]]] = {}
"""By call: type and shape of each output after inference."""


def _call_of(node: Any, opsets: Mapping[str, int]) -> Any:
    """All that inference reads of a node, and what was known of its outputs; None where that is too much to compare."""
    attributes = tuple(_attribute(item) for item in node.attributes.values())
    inputs = tuple(_value(item) for item in node.inputs)
    outputs = _described(node)
    if outputs is None or None in attributes or None in inputs:
        return None
    return node.domain, node.op_type, node.overload, opsets.get(node.domain), attributes, inputs, outputs


def _attribute(item: Any) -> Any:
    from onnx_ir import AttributeType

    if item.is_ref() or item.type in (AttributeType.GRAPH, AttributeType.GRAPHS):
        return None
    value = item.value
    if item.type == AttributeType.TENSOR:
        value = _content(value)
    elif isinstance(value, list | tuple):
        value = tuple(value)
    elif not isinstance(value, int | float | str | bytes):
        return None
    return item.name, int(item.type), value


def _value(item: Any) -> Any:
    if item is None:
        return ()
    kind = _type_and_shape(item)
    if kind is None or kind[0] is None:
        return None
    constant = item.const_value
    return (*kind, _content(constant) if constant is not None and constant.size <= SMALL else None, item.name == "")


def _content(tensor: Any) -> Any:
    return int(tensor.dtype), tuple(tensor.shape), tensor.tobytes()


def _described(node: Any) -> tuple[Any, ...] | None:
    found = tuple(_type_and_shape(item) for item in node.outputs)
    return None if None in found else found


def _type_and_shape(value: Any) -> tuple[int | None, tuple[int, ...] | None] | None:
    """Of a tensor with fixed sizes; None for anything else."""
    from onnx_ir import TensorType

    kind, shape = value.type, value.shape
    if kind is not None and (type(kind) is not TensorType or kind.denotation):
        return None
    if shape is not None and not all(isinstance(size, int) for size in shape.dims):
        return None
    return (int(kind.dtype) if kind is not None else None), (tuple(shape.dims) if shape is not None else None)


def _describe(node: Any, known: tuple[Any, ...]) -> None:
    from onnx_ir import DataType, Shape, TensorType

    for value, (kind, shape) in zip(node.outputs, known):
        value.type = TensorType(DataType(kind)) if kind is not None else None
        value.shape = Shape(shape) if shape is not None else None

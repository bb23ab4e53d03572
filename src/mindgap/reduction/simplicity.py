"""What makes one witness simpler than another: an explicit order, compared from left to right."""

from __future__ import annotations

import math
from typing import Final, NamedTuple

import torch

from mindgap.program import ops
from mindgap.program.case import Case
from mindgap.program.graph import Node, Ref, leaves
from mindgap.records.tensors import TensorMeta
from mindgap.tracing.extract import is_access

LOOKED_AT: Final = 4096
"""Elements whose digits are counted; in a larger tensor nobody reads single values."""

PLAIN: Final = {torch.float32: 0, torch.int64: 0, torch.bool: 0, torch.int32: 1, torch.float64: 1}
"""What a reader meets most often comes first; everything else counts 2."""


class Simplicity(NamedTuple):
    """Smaller is simpler; each part matters only among witnesses that are equal in all parts before it."""

    nodes: int
    """Fewer operators: less to read, and fewer suspects."""
    operators: int
    """Fewer different operators."""
    constants: int
    """A constant that could be an input hides a value from the reader."""
    outputs: int
    elements: int
    """Smaller shapes."""
    dimensions: int
    attributes: int
    """Arguments that are not what the operator takes by default."""
    digits: int
    """Rounder values."""
    dtypes: int
    layouts: int
    """Contiguous before strided."""


def simplicity(witness: Case) -> Simplicity:
    """How simple a witness is."""
    program = witness.graph
    tensors = [*witness.tensors, *witness.used_constants()]
    calls = [node for node in program.nodes if not is_access(node)]
    return Simplicity(
        nodes=len(calls),
        operators=len({node.op for node in calls}),
        constants=len(program.constants),
        outputs=len(program.output_leaves()),
        elements=witness.elements(),
        dimensions=sum(tensor.dim() for tensor in tensors),
        attributes=sum(_attributes(node) for node in calls),
        digits=sum(digits(tensor) for tensor in tensors),
        dtypes=sum(PLAIN.get(tensor.dtype, 2) for tensor in tensors) + _dtype_literals(calls),
        layouts=sum(not has_plain_strides(tensor) for tensor in tensors),
    )


def has_plain_strides(tensor: torch.Tensor) -> bool:
    """Whether a tensor of this shape has these strides unless somebody asks for others; `is_contiguous` forgives
    any stride of a dimension of size one."""
    return tensor.stride() == torch.empty(tensor.shape, device="meta").stride()


def digits(tensor: torch.Tensor) -> int:
    """How much there is to read in the values: 0 for zero, 1 for one, then by the digits of each."""
    flat = tensor.detach().reshape(-1)[:LOOKED_AT]
    if flat.dtype.is_complex:
        flat = torch.view_as_real(flat).reshape(-1)
    return sum(_digits(value) for value in flat.to(torch.float64 if flat.is_floating_point() else flat.dtype).tolist())


def _digits(value: float | int | bool) -> int:
    if value == 0:
        return 0 if math.copysign(1.0, value) > 0 else 1
    if value == 1:
        return 1
    if isinstance(value, float) and not math.isfinite(value):
        return 2  # a special value says at once what matters
    text = f"{value:.9g}" if isinstance(value, float) else str(value)
    return 1 + sum(c.isdigit() for c in text) + ("-" in text) + ("e" in text)


def _attributes(node: Node) -> int:
    return sum(value != default for _, value, default in literal_arguments(node))


def literal_arguments(node: Node) -> list[tuple[int, object, object]]:
    """Position, value and default of each argument that has a default and holds no tensor."""
    function = ops.resolve(node.op)
    if not isinstance(function, torch._ops.OpOverload):
        return []
    found = []
    for position, argument in enumerate(function._schema.arguments):
        given = position < len(node.args) or argument.name in node.kwargs
        if not given or not argument.has_default_value():
            continue
        value = node.args[position] if position < len(node.args) else node.kwargs[argument.name]
        if not any(isinstance(leaf, Ref) for _, leaf in leaves(value)):
            found.append((position, value, argument.default_value))
    return found


def _dtype_literals(nodes: list[Node]) -> int:
    found = [leaf for node in nodes for _, leaf in leaves([*node.args, *node.kwargs.values()])]
    results = [node.meta for node in nodes if isinstance(node.meta, TensorMeta)]
    odd = sum(meta.dtype not in ("float32", "int64", "bool") for meta in results)
    return odd + sum(PLAIN.get(leaf, 2) for leaf in found if isinstance(leaf, torch.dtype))

"""The same program in float64: the reference that errors are measured against."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

import torch

from mindgap.program.graph import Constant, Node, Program, Tensors, leaves, map_leaves
from mindgap.records.tensors import TensorMeta

WIDER: Final = {
    torch.float16: torch.float64,
    torch.bfloat16: torch.float64,
    torch.float32: torch.float64,
    torch.complex64: torch.complex128,
}


def widen(tensor: torch.Tensor) -> torch.Tensor:
    """A floating tensor in float64 with the same layout; anything else unchanged."""
    wider = WIDER.get(tensor.dtype)
    return tensor if wider is None else tensor.to(wider)


def widen_any(leaf: Any) -> Any:
    """A dtype argument or a floating tensor in float64; anything else unchanged."""
    if isinstance(leaf, torch.Tensor):
        return widen(leaf)
    return WIDER.get(leaf, leaf) if isinstance(leaf, torch.dtype) else leaf


def in_float64(program: Program, constants: Tensors) -> tuple[Program, dict[str, torch.Tensor]]:
    """The program with every floating constant and dtype argument widened; integers stay.

    Run it with torch's default dtype set to float64, so that operators that choose their own dtype
    (a quotient of integers, `full` without a dtype) follow. Metas of nodes stay as they were, and a widened constant is
    named after the digest of the narrow one: nothing is to be read from this program but what it computes.
    """
    tensors: dict[str, torch.Tensor] = {}
    widened: list[Constant] = []
    for constant in program.constants:
        tensor = widen(constants[constant.digest])
        same = tensor is constants[constant.digest]
        name = constant.digest if same else f"{constant.digest} in float64"
        tensors[name] = tensor
        widened.append(constant if same else replace(constant, digest=name, meta=TensorMeta.of(tensor), made=None))

    nodes = tuple(
        replace(node, args=map_leaves(node.args, widen_any), kwargs=map_leaves(node.kwargs, widen_any))
        if _names_a_dtype(node)
        else node
        for node in program.nodes
    )
    inputs = tuple(replace(item, meta=_wider_meta(item.meta)) for item in program.inputs)
    return replace(program, inputs=inputs, constants=tuple(widened), nodes=nodes, example=()), tensors


def _names_a_dtype(node: Node) -> bool:
    return any(isinstance(leaf, torch.dtype) for _, leaf in leaves([node.args, node.kwargs]))


def _wider_meta(meta: TensorMeta) -> TensorMeta:
    if meta.dtype in ("float16", "bfloat16", "float32"):
        return replace(meta, dtype="float64")
    return replace(meta, dtype="complex128") if meta.dtype.startswith("complex") else meta

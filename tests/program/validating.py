"""Checks that a program keeps every rule of the graph."""

from __future__ import annotations

from typing import Any

import torch

from mindgap.errors import CorruptProgram
from mindgap.program import ops
from mindgap.program.graph import Node, NodeMeta, Program, Ref, check_references, map_leaves
from mindgap.records.tensors import DTYPES, TensorMeta


def validate(program: Program, where: str = "program") -> None:
    """Check everything: references, operators, and that shape propagation gives the recorded metas."""
    check_references(program, where)
    check_operators(program, where)
    check_metas(program, where)


def check_operators(program: Program, where: str = "program") -> None:
    """Every operator exists and takes the number of arguments that its node has."""
    for node in program.nodes:
        function = ops.resolve(node.op)
        if not isinstance(function, torch._ops.OpOverload):
            continue
        arguments = function._schema.arguments
        names = {argument.name for argument in arguments}
        positional = sum(not argument.kwarg_only for argument in arguments)
        unknown = sorted(set(node.kwargs) - names)
        if len(node.args) > positional or unknown:
            extra = f"keyword {unknown[0]}" if unknown else f"{len(node.args)} positional arguments"
            raise CorruptProgram(f"node %{node.id}: {node.op} does not take {extra}", where=where)


def check_metas(program: Program, where: str = "program") -> None:
    """Shape propagation on meta tensors gives the shapes and dtypes that the nodes record."""
    values: dict[int, Any] = {item.id: _on_meta(item.meta) for item in program.given()}
    for node in program.nodes:
        try:
            value = _propagate(node, values)
        except NotImplementedError:
            value = _from_meta(node.meta)  # data-dependent: the recorded meta is all there is
        except Exception as error:
            raise CorruptProgram(
                f"node %{node.id} ({node.op}) does not accept its arguments",
                where=where,
                cause=str(error).splitlines()[0] if str(error) else type(error).__name__,
            ) from error
        if not _same(value, node.meta):
            raise CorruptProgram(
                f"node %{node.id} ({node.op}) gives {_describe(value)}, not the recorded {_text(node.meta)}",
                where=where,
            )
        values[node.id] = value


def _propagate(node: Node, values: dict[int, Any]) -> Any:
    def look_up(leaf: Any) -> Any:
        if isinstance(leaf, Ref):
            return values[leaf]
        return torch.device("meta") if isinstance(leaf, torch.device) else leaf

    return ops.resolve(node.op)(*map_leaves(node.args, look_up), **map_leaves(node.kwargs, look_up))


def _on_meta(meta: TensorMeta) -> torch.Tensor:
    return torch.empty_strided(meta.shape, meta.stride, dtype=DTYPES[meta.dtype], device="meta")


def _from_meta(meta: NodeMeta) -> Any:
    if isinstance(meta, TensorMeta):
        return _on_meta(meta)
    return None if meta is None else tuple(_from_meta(item) for item in meta)


def _same(value: Any, meta: NodeMeta) -> bool:
    if isinstance(value, torch.Tensor):
        if not isinstance(meta, TensorMeta):
            return False
        # Strides are the platform's choice (a fake kernel and the real one may differ): not compared.
        return tuple(value.shape) == meta.shape and value.dtype == DTYPES[meta.dtype]
    if isinstance(value, list | tuple):
        return isinstance(meta, tuple) and len(value) == len(meta) and all(map(_same, value, meta))
    return not isinstance(meta, TensorMeta)


def _describe(value: Any) -> str:
    if isinstance(value, torch.Tensor):
        return str(TensorMeta.of(value))
    if isinstance(value, list | tuple):
        return "(" + ", ".join(map(_describe, value)) + ")"
    return type(value).__name__


def _text(meta: NodeMeta) -> str:
    return "(" + ", ".join(map(_text, meta)) + ")" if isinstance(meta, tuple) else str(meta)

"""Passes that make what is left easier to read: smaller shapes, rounder values, plainer types and layouts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, Final

import torch

from mindgap.program import ops
from mindgap.program.case import Case
from mindgap.program.graph import Constant, Node, changed_leaves, digest
from mindgap.records.tensors import TensorMeta
from mindgap.reduction.cutting import Values
from mindgap.reduction.simplicity import has_plain_strides, literal_arguments
from mindgap.tracing.metas import with_metas

ONE_BY_ONE: Final = 16
"""Up to this many elements along a dimension, or in all tensors, each is tried alone."""


def shapes(witness: Case, values: Values) -> Iterator[Case]:
    """Fewer elements along all dimensions of one size, the largest size first; then along one dimension alone."""
    sizes = sorted({size for tensor in witness.tensors for size in tensor.shape if size > 1}, reverse=True)
    for size in sizes:
        for kept in _subsets(size):
            smaller = _taken(witness, size, kept)
            if smaller is not None:
                yield smaller
    for place, tensor in enumerate(witness.tensors):
        for axis, size in enumerate(tensor.shape):
            for kept in _halves(size) if size > 1 else ():
                tensors = list(witness.tensors)
                tensors[place] = _select(tensor, axis, kept)
                found = with_metas(witness.with_tensors(tensors))
                if found is not None:
                    yield found


def dimensions(witness: Case, values: Values) -> Iterator[Case]:
    """One dimension for all inputs; then without the first dimension where it has one element."""
    deep = [tensor for tensor in witness.tensors if tensor.dim() > 1]
    if not deep:
        return
    proposals = [[t.reshape(-1) for t in witness.tensors]]
    rank = max(tensor.dim() for tensor in deep)
    squeezed = [t[0] if t.dim() == rank and t.shape[0] == 1 else t for t in witness.tensors]
    proposals.append([t.clone() for t in squeezed])
    for tensors in proposals:
        found = with_metas(witness.with_tensors(tensors))
        if found is not None:
            yield found


def attributes(witness: Case, values: Values) -> Iterator[Case]:
    """Each argument as the operator takes it by default."""
    for number, node in enumerate(witness.graph.nodes):
        for position, value, default in literal_arguments(node):
            if value != default:
                changed = with_metas(_with_node(witness, number, _with_argument(node, position, default)))
                if changed is not None:
                    yield changed


def round_values(witness: Case, values: Values) -> Iterator[Case]:
    """Zeros, ones, then fewer and fewer digits: for one tensor, and for its elements when they are few."""
    for place, tensor in enumerate(witness.tensors):
        for rounder in _rounder(tensor):
            yield _with_input(witness, place, rounder)
    if witness.elements() > ONE_BY_ONE:
        return
    for place, tensor in enumerate(witness.tensors):
        flat = tensor.reshape(-1)
        for element in range(flat.numel()):
            for rounder in _rounder(flat[element]):
                changed = flat.clone()
                changed[element] = rounder
                yield _with_input(witness, place, changed.reshape(tensor.shape))


def dtypes(witness: Case, values: Values) -> Iterator[Case]:
    """Every floating type as float32, every integer as int64."""
    for wide, chosen in ((torch.float32, _is_floating), (torch.int64, _is_integer)):

        def plain(leaf: Any, wide: torch.dtype = wide, chosen: Any = chosen) -> Any:
            return wide if isinstance(leaf, torch.dtype) and chosen(leaf) else leaf

        tensors = [t.to(wide) if chosen(t.dtype) else t for t in witness.tensors]
        found = witness.with_tensors(tensors)
        held: dict[str, torch.Tensor] = {}
        constants: list[Constant] = []
        for constant in found.graph.constants:
            tensor = found.constants[constant.digest]
            tensor = tensor.to(wide) if chosen(tensor.dtype) else tensor
            held[name := digest(tensor)] = tensor
            constants.append(replace(constant, digest=name, meta=TensorMeta.of(tensor), made=None))
        nodes = tuple(changed_leaves(node, plain) for node in found.graph.nodes)
        program = replace(found.graph, nodes=nodes, constants=tuple(constants))
        changed = with_metas(found.with_constants(held).with_program(program))
        if changed is not None:
            yield changed


def layouts(witness: Case, values: Values) -> Iterator[Case]:
    """Contiguous inputs."""
    if not all(map(has_plain_strides, witness.tensors)):
        plain = [tensor.clone(memory_format=torch.contiguous_format) for tensor in witness.tensors]
        found = with_metas(witness.with_tensors(plain))
        if found is not None:
            yield found


def _subsets(size: int) -> Iterator[list[int]]:
    """Which elements along a dimension to keep: few first, then all but a part."""
    whole = list(range(size))
    yield [0]
    if size > 2:
        yield [size - 1]
        yield [0, 1]
    if size > 3:
        yield from _halves(size)
    part = max(1, size // 4)
    while size > 2:
        if size // part > ONE_BY_ONE:
            return
        for low in range(0, size, part):
            yield whole[:low] + whole[low + part :]
        if part == 1:
            return
        part //= 2


def _halves(size: int) -> tuple[list[int], list[int]]:
    half = (size + 1) // 2
    return list(range(half)), list(range(size - half if size > 2 else 1, size))


def _taken(witness: Case, size: int, kept: Sequence[int]) -> Case | None:
    """Every dimension of this size with these elements only; arguments that repeat the size follow if they must."""
    tensors = list(witness.tensors)
    for place, tensor in enumerate(tensors):
        for axis in range(tensor.dim()):
            if tensor.shape[axis] == size:
                tensors[place] = _select(tensors[place], axis, kept)
    smaller = witness.with_tensors(tensors)
    found = with_metas(smaller)
    if found is not None:
        return found

    def resize(leaf: Any) -> Any:
        return len(kept) if type(leaf) is int and leaf == size else leaf

    nodes = tuple(changed_leaves(node, resize) for node in smaller.graph.nodes)
    return with_metas(replace(smaller, program=replace(smaller.graph, nodes=nodes)))


def _select(tensor: torch.Tensor, axis: int, kept: Sequence[int]) -> torch.Tensor:
    """Some elements along an axis; a run of them keeps its layout."""
    if list(kept) == list(range(kept[0], kept[0] + len(kept))):
        piece = tensor.narrow(axis, kept[0], len(kept))
        return piece.clone() if piece.is_contiguous() or tensor.is_contiguous() else piece
    return tensor.index_select(axis, torch.tensor(list(kept)))


def _with_input(witness: Case, place: int, tensor: torch.Tensor) -> Case:
    old = witness.tensors[place]
    fresh = torch.empty_strided(old.shape, old.stride(), dtype=old.dtype) if not _overlaps(old) else None
    tensors = list(witness.tensors)
    tensors[place] = tensor.clone() if fresh is None else fresh.copy_(tensor)
    return witness.with_tensors(tensors)


def _overlaps(tensor: torch.Tensor) -> bool:
    return any(step == 0 and size > 1 for size, step in zip(tensor.shape, tensor.stride()))


def _rounder(tensor: torch.Tensor) -> Iterator[torch.Tensor]:
    """The same tensor with simpler values, the simplest first."""
    yield torch.zeros_like(tensor)
    yield torch.ones_like(tensor)
    if tensor.dtype is torch.bool or tensor.dtype.is_complex:
        return
    if not tensor.is_floating_point():
        wide = tensor.to(torch.int64)
        yield wide.clamp(-9, 9).to(tensor.dtype)
        largest = max((abs(value) for value in wide.reshape(-1).tolist()), default=0)
        round_number = min(10 ** (len(str(largest)) - 1), 10**18)
        yield wide.clamp(-round_number, round_number).to(tensor.dtype)
        return
    wide = tensor.to(torch.float64)
    finite = torch.isfinite(wide)
    if not bool(finite.all()):
        yield torch.where(finite, wide, torch.ones_like(wide)).to(tensor.dtype)
    yield wide.sign().to(tensor.dtype)
    for places in (0, 1, 2):
        yield torch.where(finite, wide.round(decimals=places), wide).to(tensor.dtype)
    size = torch.where(wide == 0, torch.ones_like(wide), wide.abs()).clamp(1e-300, 1e300)
    for kept in (1, 2, 3):
        scale = 10.0 ** (kept - 1 - size.log10().floor())
        yield torch.where(finite, (wide * scale).round() / scale, wide).to(tensor.dtype)


def _with_argument(node: Node, position: int, value: Any) -> Node:
    if position < len(node.args):
        args = (*node.args[:position], value, *node.args[position + 1 :])
        return replace(node, args=args)
    function_name = _argument_name(node, position)
    return replace(node, kwargs={key: v for key, v in node.kwargs.items() if key != function_name})


def _argument_name(node: Node, position: int) -> str:
    return str(ops.resolve(node.op)._schema.arguments[position].name)  # type: ignore[attr-defined]


def _with_node(witness: Case, number: int, node: Node) -> Case:
    nodes = (*witness.graph.nodes[:number], node, *witness.graph.nodes[number + 1 :])
    return witness.with_program(replace(witness.graph, nodes=nodes))


def _is_floating(dtype: torch.dtype) -> bool:
    return dtype.is_floating_point


def _is_integer(dtype: torch.dtype) -> bool:
    return not (dtype.is_floating_point or dtype.is_complex or dtype is torch.bool)

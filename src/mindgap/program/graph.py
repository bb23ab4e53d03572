"""Nodes, inputs, constants and outputs of a program."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final, TypeAlias

import torch

from mindgap.errors import CorruptProgram
from mindgap.program.made import Recipe
from mindgap.program.memo import Memo
from mindgap.records.tensors import TensorMeta, byte_view

Argument: TypeAlias = Any
"""A literal, a `Ref`, or a list, tuple or dict of arguments."""

NodeMeta: TypeAlias = "TensorMeta | tuple[NodeMeta, ...] | None"
"""What a node returns: a tensor, several, or something that is not a tensor."""

Tensors: TypeAlias = Mapping[str, torch.Tensor]
"""Constants by digest."""


DIGEST_BYTES: Final = 12
"""Of a constant: its name is twice as many hex digits."""


class Ref(int):
    """The id of an input, a constant or an earlier node, used as an argument."""

    __slots__ = ()

    def __repr__(self) -> str:
        return f"%{int(self)}"


@dataclass(frozen=True, slots=True)
class Input:
    """A tensor that the caller gives."""

    id: int
    name: str
    meta: TensorMeta


@dataclass(frozen=True, slots=True)
class Constant:
    """A weight, buffer or literal tensor, referred to by the digest of its content."""

    id: int
    name: str
    meta: TensorMeta
    digest: str
    made: Recipe | None = None
    """How to make it again; None when its values must be kept somewhere."""


@dataclass(frozen=True, slots=True)
class Node:
    """One operator call; the order of nodes is meaning, because in-place operators stay."""

    id: int
    op: str
    """ATen overload name (`aten.add.Tensor`) or a scalar function (`operator.getitem`)."""
    args: tuple[Argument, ...]
    kwargs: Mapping[str, Argument] = field(default_factory=dict)
    meta: NodeMeta = None
    where: str = ""
    """The submodule of the source model that it came from."""
    line: str = ""
    """The line of the source code that it came from: `nets/blocks.py:31`."""


@dataclass(frozen=True, slots=True)
class Program:
    """A computation graph with stable integer ids."""

    name: str
    inputs: tuple[Input, ...]
    constants: tuple[Constant, ...]
    nodes: tuple[Node, ...]
    outputs: Argument
    """References and literals in the nesting that the source model returned."""
    example: tuple[Recipe, ...] = ()
    """Inputs that fit, in the order of `inputs`; empty when none are known."""

    def given(self) -> list[Input | Constant]:
        """What exists before the first node runs."""
        return [*self.inputs, *self.constants]

    def output_leaves(self) -> list[tuple[str, Argument]]:
        """Outputs in flat order, named by their path."""
        return [(name or "output", value) for name, value in leaves(self.outputs) if value is not None]

    def parameter_count(self) -> int:
        return sum(math.prod(constant.meta.shape) for constant in self.constants)


_LEAVES: Final = frozenset({Ref, int, float, bool, str, type(None), torch.Tensor, torch.dtype, torch.device})
"""What is a leaf at first sight: nearly every argument, and asking whether it is a mapping takes longer."""


def leaves(structure: Argument, path: str = "") -> Iterator[tuple[str, Argument]]:
    """Every leaf of nested lists, tuples and dicts with its path (`logits`, `hidden[0]`)."""
    if type(structure) in _LEAVES:
        yield path, structure
    elif isinstance(structure, Mapping):
        for key, value in structure.items():
            yield from leaves(value, f"{path}.{key}" if path else str(key))
    elif isinstance(structure, list | tuple):
        for index, value in enumerate(structure):
            yield from leaves(value, f"{path}[{index}]")
    else:
        yield path, structure


def map_leaves(structure: Argument, change: Callable[[Argument], Argument]) -> Argument:
    """The same nesting with every leaf changed."""
    if type(structure) in _LEAVES:
        return change(structure)
    if isinstance(structure, Mapping):
        return {key: map_leaves(value, change) for key, value in structure.items()}
    if isinstance(structure, list):
        return [map_leaves(value, change) for value in structure]
    if isinstance(structure, tuple):
        return tuple(map_leaves(value, change) for value in structure)
    return change(structure)


def changed_leaves(node: Node, change: Callable[[Any], Any]) -> Node:
    """The node with every leaf of its arguments changed."""
    args = map_leaves(tuple(node.args), change)
    return replace(node, args=args, kwargs={key: map_leaves(value, change) for key, value in node.kwargs.items()})


def _references(node: Node) -> tuple[int, ...]:
    found: list[int] = []
    _add_references(node.args, found)
    if node.kwargs:
        _add_references(node.kwargs.values(), found)
    return tuple(found)


references: Final = Memo(_references)
"""The ids that a node reads, in order of appearance."""


def _add_references(arguments: Iterable[Argument], found: list[int]) -> None:
    for argument in arguments:
        kind = type(argument)
        if kind is Ref:
            found.append(int(argument))
        elif kind is list or kind is tuple:
            _add_references(argument, found)
        elif kind not in _LEAVES:
            found += [int(leaf) for _, leaf in leaves(argument) if isinstance(leaf, Ref)]


def digest(tensor: torch.Tensor) -> str:
    """The content of a tensor as 24 hex digits: values, shape, strides and element type."""
    meta = TensorMeta.of(tensor)
    content = hashlib.blake2b(repr((meta.shape, meta.dtype, meta.stride)).encode(), digest_size=DIGEST_BYTES)
    content.update(byte_view(tensor).numpy().data)
    return content.hexdigest()


def check_references(program: Program, where: str = "program") -> None:
    """Ids are unique and every reference points backwards."""
    known: set[int] = set()

    def define(identity: int, what: str) -> None:
        if identity in known:
            raise CorruptProgram(f"{what} reuses the id %{identity}", where=where)
        known.add(identity)

    for item in program.given():
        define(item.id, item.name)
    for node in program.nodes:
        for reference in references(node):
            if reference not in known:
                raise CorruptProgram(
                    f"node %{node.id} ({node.op}) refers to %{reference}, which is not defined before it", where=where
                )
        define(node.id, f"node {node.op}")
    for name, leaf in leaves(program.outputs):
        if isinstance(leaf, Ref) and int(leaf) not in known:
            raise CorruptProgram(f"output {name} refers to {leaf!r}, which does not exist", where=where)

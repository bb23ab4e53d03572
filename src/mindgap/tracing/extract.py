"""Parts of a program as programs of their own."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch

from mindgap.program import ops
from mindgap.program.build import without_unused
from mindgap.program.case import Case
from mindgap.program.graph import Argument, Input, Node, Program, Ref, changed_leaves, leaves, references
from mindgap.program.operators import traits
from mindgap.records.tensors import TensorMeta

Value = torch.Tensor | bool | int | float | complex
"""What a node gave: a tensor, or a number that an operator like `item` returned."""


def is_access(node: Node) -> bool:
    """Whether a node only takes one of several results of another."""
    return node.op == "operator.getitem"


def computing_first(program: Program) -> list[Node]:
    """The operators of a program, those that compute before those that only bring values into shape."""
    return sorted((n for n in program.nodes if not is_access(n)), key=lambda node: traits(node.op).view)


def units(program: Program) -> list[tuple[int, ...]]:
    """Operators with the nodes that take their results apart: the smallest parts that can stand alone."""
    found: dict[int, list[int]] = {}
    owner: dict[int, int] = {}
    for node in program.nodes:
        source = int(node.args[0]) if is_access(node) and isinstance(node.args[0], Ref) else None
        root = owner.get(source, source) if source is not None else None
        if root is not None and root in found:
            owner[node.id] = root
            found[root].append(node.id)
        else:
            found[node.id] = [node.id]
    return [tuple(members) for members in found.values()]


def returned_by(program: Program, chosen: Collection[int]) -> list[int]:
    """Tensors of the chosen nodes that are read elsewhere or returned; those that nobody reads if there are none."""
    read = {r for node in program.nodes if node.id not in chosen for r in references(node)}
    read |= {int(leaf) for _, leaf in leaves(program.outputs) if isinstance(leaf, Ref)}
    mine = [node for node in program.nodes if node.id in chosen and is_tensor(node)]
    wanted = [node.id for node in mine if node.id in read]
    if wanted:
        return wanted
    inside = {r for node in program.nodes if node.id in chosen for r in references(node)}
    return [node.id for node in mine if node.id not in inside]


def ends_of(program: Program, chosen: Collection[int]) -> list[int]:
    """Of what the chosen nodes return, that which nothing else of it is made from: the fewest values that show it all.

    A compiler fuses what nobody looks at, and some refuse to return a value that is read as well.
    """
    returned = returned_by(program, chosen)
    used: set[int] = set()
    for node in reversed([node for node in program.nodes if node.id in chosen]):
        if node.id in returned or node.id in used:
            used |= set(references(node))
    return [identity for identity in returned if identity not in used] or returned


def is_tensor(node: Node) -> bool:
    """Whether a node returns one tensor."""
    return isinstance(node.meta, TensorMeta)


def needs(program: Program, chosen: Collection[int]) -> list[int]:
    """Values that the chosen nodes read and do not make: inputs and results of other nodes, not constants."""
    constants = {constant.id for constant in program.constants}
    read = [r for node in program.nodes if node.id in chosen for r in references(node)]
    return list(dict.fromkeys(r for r in read if r not in chosen and r not in constants))


def extract(
    witness: Case, chosen: Collection[int], values: Mapping[int, Value], returned: Sequence[int] | None = None
) -> Case:
    """The chosen nodes as a program that is fed with these values.

    Node ids and constants stay; what the nodes need from elsewhere becomes an input, numbers become literals.
    """
    program = witness.graph
    outside = needs(program, chosen)
    names = {item.id: item.name for item in program.inputs}
    numbers = {r: values[r] for r in outside if not isinstance(values[r], torch.Tensor)}
    inputs, tensors = [], []
    for identity in outside:
        value = values[identity]
        if isinstance(value, torch.Tensor):
            inputs.append(Input(identity, names.get(identity, f"v{identity}"), TensorMeta.of(value)))
            tensors.append(value)

    def fill(leaf: Any) -> Any:
        return numbers.get(int(leaf), leaf) if isinstance(leaf, Ref) else leaf

    nodes = tuple(changed_leaves(node, fill) for node in program.nodes if node.id in chosen)
    wanted = returned_by(program, chosen) if returned is None else returned
    outputs: Argument = tuple(Ref(identity) for identity in wanted)
    part = replace(program, inputs=tuple(inputs), nodes=nodes, outputs=outputs, example=())
    return witness.with_program(without_unused(part), tuple(tensors))


def writes(program: Program) -> bool:
    """Whether any operator writes to memory that others may read: then the order of nodes is meaning."""
    return any(ops.mutated_arguments(node.op) for node in program.nodes)


def needed_nodes(program: Program, targets: Iterable[int]) -> set[int]:
    """The nodes that these values depend on; all before the last of them where memory may be shared."""
    wanted = set(targets)
    places = {node.id: place for place, node in enumerate(program.nodes)}
    if writes(program):
        last = max((places[t] for t in wanted if t in places), default=-1)
        return {node.id for node in program.nodes[: last + 1]}
    kept: set[int] = set()
    for node in reversed(program.nodes):
        if node.id in wanted:
            kept.add(node.id)
            wanted |= set(references(node))
    return kept

"""Parts of a program as programs of their own."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch

from mindgap.program import ops
from mindgap.program.build import without_unused
from mindgap.program.case import Case
from mindgap.program.graph import Argument, Input, Node, Program, Ref, leaves, map_leaves, references
from mindgap.records.tensors import TensorMeta

Value = torch.Tensor | bool | int | float | complex
"""What a node gave: a tensor, or a number that an operator like `item` returned."""


def is_access(node: Node) -> bool:
    """Whether a node only takes one of several results of another."""
    return node.op == "operator.getitem"


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


def changed_leaves(node: Node, change: Callable[[Any], Any]) -> Node:
    """The node with every leaf of its arguments changed."""
    args = map_leaves(tuple(node.args), change)
    return replace(node, args=args, kwargs={key: map_leaves(value, change) for key, value in node.kwargs.items()})


def merged(witnesses: Sequence[Case], name: str) -> tuple[Case, list[list[str]]]:
    """Many programs as one, so that one compilation serves all.

    Returns with it the names of each program's outputs in the whole: an output, or an input that it changes.
    """
    inputs: list[Input] = []
    tensors: list[torch.Tensor] = []
    constants = {c.digest: (c, t) for w in witnesses for c, t in zip(w.graph.constants, w.used_constants())}
    places = {identity: number for number, identity in enumerate(constants)}
    nodes: list[Node] = []
    outputs: list[Argument] = []
    owned: list[list[str]] = []
    count = len(constants)
    for number, witness in enumerate(witnesses):
        program = witness.graph
        new = {c.id: places[c.digest] for c in program.constants}
        for identity in (*(item.id for item in program.inputs), *(node.id for node in program.nodes)):
            new[identity] = count
            count += 1

        def renumber(leaf: Any, new: Mapping[int, int] = new) -> Any:
            return Ref(new[int(leaf)]) if isinstance(leaf, Ref) else leaf

        mine = [replace(item, id=new[item.id], name=f"p{number}_{item.name}") for item in program.inputs]
        inputs += mine
        tensors += witness.tensors
        nodes += [replace(changed_leaves(node, renumber), id=new[node.id]) for node in program.nodes]
        results = map_leaves(tuple(leaf for _, leaf in leaves(program.outputs)), renumber)
        owned.append([f"[{len(outputs) + i}]" for i in range(len(results))] + [f"input:{i.name}" for i in mine])
        outputs += results
    whole = Program(
        name,
        tuple(inputs),
        tuple(replace(constant, id=places[identity]) for identity, (constant, _) in constants.items()),
        tuple(nodes),
        tuple(outputs),
    )
    return Case.of(whole, {d: t for d, (_, t) in constants.items()}, tuple(tensors), witnesses[0].seed), owned


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

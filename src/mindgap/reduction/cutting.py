"""Passes that make the graph smaller: fewer outputs, fewer nodes; what was cut away becomes an input."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import replace
from typing import Any, Final

from mindgap.errors import ProgramError
from mindgap.program.build import without_unused
from mindgap.program.case import Case
from mindgap.program.graph import Input, Ref, changed_leaves, map_leaves, references
from mindgap.records.tensors import TensorMeta
from mindgap.tracing.extract import Value, extract, is_access, is_tensor, needed_nodes, units

Values = Callable[[Case, Sequence[Collection[int]]], "list[dict[int, Value]]"]
"""What each part of a witness's program is fed with when eager runs it."""

FEW: Final = 24
"""Up to this many operators, each is tried alone; above, groups of them."""


def outputs(witness: Case, values: Values) -> Iterator[Case]:
    """One output alone; half of them when there are many."""
    program = witness.graph
    found = [leaf for _, leaf in program.output_leaves() if isinstance(leaf, Ref)]
    if len(found) < 2 and program.outputs in found:
        return
    groups = [[leaf] for leaf in found] if len(found) <= 8 else [found[: len(found) // 2], found[len(found) // 2 :]]
    for group in groups:
        yield returning(witness, [int(leaf) for leaf in group])


def suffix(witness: Case, values: Values) -> Iterator[Case]:
    """The first nodes alone: half of them, then more and more."""
    parts = units(witness.graph)
    for count in _growing(len(parts)):
        kept = {member for part in parts[:count] for member in part}
        yield from _extracted(witness, kept, values)


def prefix(witness: Case, values: Values) -> Iterator[Case]:
    """The last nodes alone: half of them, then more and more; they are fed with what eager gave."""
    parts = units(witness.graph)
    for count in _growing(len(parts)):
        kept = {member for part in parts[len(parts) - count :] for member in part}
        yield from _extracted(witness, kept, values)


def single(witness: Case, values: Values) -> Iterator[Case]:
    """One operator alone, the last first."""
    parts = units(witness.graph)
    if 1 < len(parts) <= FEW:
        for part in reversed(parts):
            yield from _extracted(witness, part, values)


def removal(witness: Case, values: Values) -> Iterator[Case]:
    """Without a group of nodes: large groups first, single nodes last; their results become inputs."""
    parts = units(witness.graph)
    size = max(1, len(parts) // 4)
    while len(parts) > 1:
        for low in range(0, len(parts), size):
            gone = {member for part in parts[low : low + size] for member in part}
            rest = {node.id for node in witness.graph.nodes} - gone
            if rest:
                yield from _extracted(witness, rest, values)
        if size == 1:
            return
        size //= 2


def bypass(witness: Case, values: Values) -> Iterator[Case]:
    """Without one node: those who read it read an argument of the same shape and type instead."""
    program = witness.graph
    metas: dict[int, object] = {item.id: (item.meta.shape, item.meta.dtype) for item in program.given()}
    metas |= {n.id: (n.meta.shape, n.meta.dtype) for n in program.nodes if isinstance(n.meta, TensorMeta)}
    for node in reversed(program.nodes):
        same = [r for r in references(node) if is_tensor(node) and metas.get(r) == metas[node.id]]
        for replacement in dict.fromkeys(same):

            def swap(leaf: Any, old: int = node.id, new: int = replacement) -> Any:
                return Ref(new) if isinstance(leaf, Ref) and int(leaf) == old else leaf

            nodes = tuple(changed_leaves(other, swap) for other in program.nodes if other.id != node.id)
            outputs = map_leaves(program.outputs, swap)
            if nodes:
                changed = replace(program, nodes=nodes, outputs=outputs)
                yield _tidy(witness.with_program(changed))


def constants(witness: Case, values: Values) -> Iterator[Case]:
    """All constants as inputs, then each alone."""
    held = witness.graph.constants
    if held:
        yield _as_inputs(witness, {constant.id for constant in held})
    if len(held) > 1:
        for constant in held:
            yield _as_inputs(witness, {constant.id})


def returning(witness: Case, targets: Sequence[int]) -> Case:
    """The same program, but only these values are returned."""
    program = witness.graph
    outputs = Ref(targets[0]) if len(targets) == 1 else tuple(Ref(target) for target in targets)
    kept = needed_nodes(program, targets)
    nodes = tuple(node for node in program.nodes if node.id in kept)
    return _tidy(witness.with_program(replace(program, nodes=nodes, outputs=outputs)))


def _extracted(witness: Case, kept: Collection[int], values: Values) -> Iterator[Case]:
    """A part on its own, unless eager fails before it; an access whose operator is not in it becomes an input."""
    nodes = {node.id: node for node in witness.graph.nodes}
    whole = {i for i in kept if not is_access(nodes[i]) or int(nodes[i].args[0]) in kept}
    with contextlib.suppress(ProgramError):
        yield _tidy(extract(witness, whole, values(witness, [whole])[0]))


def _tidy(witness: Case) -> Case:
    """Without inputs and constants that nothing reads; one output is returned by itself."""
    program = witness.graph
    read = {r for node in program.nodes for r in references(node)}
    map_leaves(program.outputs, lambda leaf: read.add(int(leaf)) if isinstance(leaf, Ref) else None)
    kept = [place for place, item in enumerate(program.inputs) if item.id in read]
    outputs = program.outputs
    if isinstance(outputs, tuple) and len(outputs) == 1:
        outputs = outputs[0]
    inputs = tuple(program.inputs[place] for place in kept)
    tidy = without_unused(replace(program, inputs=inputs, outputs=outputs, example=()))
    return witness.with_program(tidy, tuple(witness.tensors[place] for place in kept))


def _as_inputs(witness: Case, chosen: Collection[int]) -> Case:
    program = witness.graph
    moved = [constant for constant in program.constants if constant.id in chosen]
    inputs = (*program.inputs, *(Input(c.id, f"c{c.id}", c.meta) for c in moved))
    rest = tuple(constant for constant in program.constants if constant.id not in chosen)
    tensors = (*witness.tensors, *(witness.constants[c.digest] for c in moved))
    return witness.with_program(replace(program, inputs=inputs, constants=rest, example=()), tensors)


def _growing(count: int) -> Iterator[int]:
    """Half of `count`, three quarters, seven eighths ... up to one less."""
    missing = count // 2
    while missing:
        yield count - missing
        missing //= 2

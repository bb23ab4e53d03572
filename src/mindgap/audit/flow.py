"""Who is made from what in a program: which values carry the input's numbers, and which of them are small."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final

from mindgap.program.graph import Node, Program, Ref, leaves, references
from mindgap.program.interpret import written_by
from mindgap.program.operators import base_name, traits
from mindgap.records.audit import Operator, Wired
from mindgap.records.tensors import TensorMeta

SMALL: Final = 64
"""Elements per sample that a gate may have. A patch of 4 x 4 pixels in three colours that is compared one by one has
48; what separates classes, tokens or pixels has more."""
MAP: Final = 64 * 64
"""Elements per sample of a map with one channel: a detector that has not been pooled yet."""

PICTURED: Final = 24
"""Operators in a picture: a detector of four convolutions with what it controls has about twenty."""

_SATURATING: Final = frozenset({"sigmoid", "tanh", "exp", "softmax", "_softmax", "gelu", "silu", "erf", "pow"})
"""Operators that come to rest without a bound in their name."""


@dataclass
class Flow:
    """The wiring of a program, made once."""

    program: Program
    nodes: dict[int, Node] = field(init=False)
    users: dict[int, list[int]] = field(init=False, default_factory=dict)
    derived: set[int] = field(init=False)
    """Values whose numbers come from an input."""
    live: set[int] = field(init=False)
    """Values that an output depends on."""
    position: dict[int, int] = field(init=False)

    def __post_init__(self) -> None:
        program = self.program
        self.nodes = {node.id: node for node in program.nodes}
        self.position = {node.id: place for place, node in enumerate(program.nodes)}
        self.derived = {item.id for item in program.inputs}
        for node in program.nodes:
            for reference in dict.fromkeys(references(node)):
                self.users.setdefault(reference, []).append(node.id)
            if any(r in self.derived for r in self.read(node)):
                self.derived.add(node.id)
                self.derived.update(_written(node))
        self.live = {int(leaf) for _, leaf in leaves(program.outputs) if isinstance(leaf, Ref)}
        for node in reversed(program.nodes):
            if node.id in self.live or _written(node):
                self.live.update(references(node))

    def read(self, node: Node) -> tuple[int, ...]:
        """The values whose numbers a node uses, not only their shape or dtype."""
        known = traits(node.op)
        if known.borrows:
            return ()
        return references(node)[:1] if known.lends else references(node)

    def candidates(self) -> list[Node]:
        """Values that could be a gate: derived from the input, small per sample, and used."""
        return [
            node for node in self.program.nodes
            if node.id in self.derived and node.id in self.live and self._is_small(node)
        ]  # fmt: skip

    def _is_small(self, node: Node) -> bool:
        meta = node.meta
        if not isinstance(meta, TensorMeta) or not math.prod(meta.shape):
            return False
        size = math.prod(meta.shape) // self.samples_in(meta)
        single = len(meta.shape) > 2 and meta.shape[1] == 1
        return size <= SMALL or (single and size <= MAP)

    def samples_in(self, meta: TensorMeta) -> int:
        """Samples of a batch that a value holds: the first dimension, where all inputs that have one agree on it."""
        sizes = {item.meta.shape[0] for item in self.program.inputs if item.meta.shape}
        return meta.shape[0] if meta.shape and sizes == {meta.shape[0]} else 1

    def before(self, node: int) -> set[int]:
        """All nodes that a value depends on, itself included."""
        found = {node}
        for other in reversed(self.program.nodes[: self.position[node] + 1]):
            if other.id in found:
                found.update(r for r in self.read(other) if r in self.nodes)
        return found

    def after(self, node: int) -> set[int]:
        """All nodes that depend on a value, itself included."""
        found = {node}
        for other in self.program.nodes[self.position[node] + 1 :]:
            if any(r in found for r in self.read(other)):
                found.add(other.id)
        return found

    def own(self, gate: int) -> list[int]:
        """The nodes that serve nothing but a gate, itself included: its detector."""
        found = {gate}
        for other in reversed(self.program.nodes[: self.position[gate]]):
            users = self.users.get(other.id, ())
            if other.id in self.derived and users and all(user in found for user in users):
                found.add(other.id)
        outputs = {int(leaf) for _, leaf in leaves(self.program.outputs) if isinstance(leaf, Ref)}
        return sorted(found - outputs | {gate})

    def saturates(self, value: int) -> bool:
        """Whether a value comes from an operator that gives one number for all that lies beyond a bound."""
        node = self.nodes.get(value)
        return node is not None and (traits(node.op).clips or base_name(node.op) in _SATURATING)

    def is_separate(self, gate: int) -> bool:
        """Whether a gate's detector reads an input by itself, with weights or a pattern of its own."""
        inputs = {item.id for item in self.program.inputs}
        sizes = {item.id: math.prod(item.meta.shape) for item in self.program.constants}
        read = [r for node in self.own(gate) for r in self.read(self.nodes[node])]
        return any(r in inputs for r in read) and any(sizes.get(r, 0) > 1 for r in read)

    def reached_by(self, node: int) -> tuple[str, ...]:
        """The names of the inputs that a value depends on."""
        read = {r for other in self.before(node) for r in self.read(self.nodes[other])}
        return tuple(item.name for item in self.program.inputs if item.id in read)

    def described(self, node: int) -> Operator:
        found = self.nodes[node]
        result = str(found.meta) if isinstance(found.meta, TensorMeta) else ""
        return Operator(found.id, found.op, found.where, found.line, result)

    def pictured(self, chosen: Sequence[int], middle: int) -> tuple[Wired, ...]:
        """Some nodes and what is next to them, or as many of these as fit a picture, those nearest to the middle."""
        near = {other for node in chosen for other in (*references(self.nodes[node]), *self.users.get(node, ()))}
        wide = {node for node in {*chosen, *near} if node in self.nodes}
        shown = {middle}
        front = [middle]
        while front and len(shown) < PICTURED:
            reached = [r for node in front for r in (*references(self.nodes[node]), *self.users.get(node, ()))]
            front = [node for node in dict.fromkeys(reached) if node in wide and node not in shown]
            shown.update(front[: PICTURED - len(shown)])
        return tuple(self._wired(node, shown) for node in self.program.nodes if node.id in shown)

    def _wired(self, node: Node, shown: Collection[int]) -> Wired:
        read = dict.fromkeys(references(node))
        return Wired(
            operator=self.described(node.id),
            reads=tuple(r for r in read if r in self.nodes),
            inputs=tuple(item.name for item in self.program.inputs if item.id in read),
            weights=tuple(item.name for item in self.program.constants if item.id in read),
            leads_on=any(user not in shown for user in self.users.get(node.id, ())),
        )


def _written(node: Node) -> Iterable[int]:
    """The values that a node writes into."""
    for position, name in written_by(node):
        argument = node.args[position] if position < len(node.args) else node.kwargs.get(name)
        yield from (int(leaf) for _, leaf in leaves(argument) if isinstance(leaf, Ref))

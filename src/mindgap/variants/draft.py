"""A base being edited: only what differs from it is held, so that an edit costs the same on any graph.

Mutations insert nodes, redirect uses and replace nodes; every new node is evaluated at once by the rules, and
`settle` re-evaluates what lies downstream of a change until the values are the old ones again. A refused edit is
undone by going back to a checkpoint.
"""

from __future__ import annotations

import heapq
from collections.abc import Mapping, Sequence
from dataclasses import replace
from random import Random
from typing import Any, Final

from mindgap.program import ops
from mindgap.program.graph import (
    Argument,
    Constant,
    Input,
    Node,
    NodeMeta,
    Program,
    Ref,
    digest,
    leaves,
    map_leaves,
)  # fmt: skip
from mindgap.program.made import Recipe, recreate
from mindgap.records.tensors import TensorMeta
from mindgap.variants.base import Base
from mindgap.variants.order import END, Order
from mindgap.variants.rules import Refused, Result, RuleTable
from mindgap.variants.values import MOSTLY, Value, contiguous_stride, of_tensor
from mindgap.variants.walk import reads, substitute_all


class Draft:
    """An editable program over an unchanged base."""

    def __init__(self, base: Base, rules: RuleTable, rng: Random, donor: Base | None = None) -> None:
        self.base = base
        self.rules = rules
        self.rng = rng
        self.donor = donor
        self.allow_poison = False
        """Whether values that are mostly not finite are part of the plan."""
        self.trust: frozenset[int] = frozenset()
        """Nodes whose refusal is meant: an invalid variant keeps their old values."""
        self.focus: list[str] = []
        """Operators to use, in order, where a mutation is free to choose."""
        self.steps: list[str] = []
        self.plan = "ordinary"
        """How the inputs are made."""
        self._next = base.next_id
        self._nodes: dict[int, Node | None] = {}
        self._values: dict[int, Result] = {}
        self._users: dict[int, list[int]] = {}
        self._order = Order(base.position)
        self._constants: dict[int, Constant | None] = {}
        self._inputs: dict[int, Input] = {}
        self._example: dict[int, Recipe] = {}
        self._outputs: Argument = base.program.outputs
        self._output_ids = base.outputs
        self._dirty: dict[int, None] = {}

    # Looking

    @property
    def next_id(self) -> int:
        """Of whatever is inserted next."""
        return self._next

    def node(self, identity: int) -> Node | None:
        """A node by id; None for inputs and constants, and for what was removed."""
        if identity in self._nodes:
            return self._nodes[identity]
        index = self.base.position.get(identity)
        return None if index is None else self.base.program.nodes[index]

    def known(self, identity: int) -> Result:
        """What is known of a value."""
        found = self._values.get(identity, self)
        return self.base.values[identity] if found is self else found  # type: ignore[return-value]

    def tensor(self, identity: int) -> Value:
        """What is known of a value that must be a tensor."""
        found = self.known(identity)
        if not isinstance(found, Value):
            raise Refused("it is not a tensor")
        return found

    def users(self, identity: int) -> Sequence[int]:
        """The nodes that read a value."""
        found = self._users.get(identity)
        return self.base.users.get(identity, ()) if found is None else found

    def is_output(self, identity: int) -> bool:
        return identity in self._output_ids

    def order(self, identity: int) -> float:
        """Where a value stands: before everything for inputs and constants."""
        return self._order.key(identity)

    def pick_node(self, tries: int = 12) -> Node:
        """A random node of the base that is still there."""
        nodes = self.base.program.nodes
        for _ in range(tries):
            if not nodes:
                break
            node = self.node(nodes[int(self.rng.random() * len(nodes))].id)
            if node is not None:
                return node
        raise Refused("there is no node left")

    # Changing

    def insert(
        self, anchor: int, op: str, args: Sequence[Argument], kwargs: Mapping[str, Argument] | None = None
    ) -> Ref:
        """A new node in front of another; refused when the operator rejects its arguments."""
        node = Node(self._next, op, tuple(args), dict(kwargs or {}))
        found = self._evaluate(node)
        self._guard(found)
        self._next += 1
        self._order.put(node.id, anchor)
        self._nodes[node.id] = node
        self._values[node.id] = found
        self._link(node, ())
        return Ref(node.id)

    def _evaluate(self, node: Node) -> Result:
        """What a new node gives."""
        return self.rules.evaluate(node.op, node.args, node.kwargs, self.known)

    def change(self, identity: int, op: str, args: Sequence[Argument], kwargs: Mapping[str, Argument]) -> None:
        """Replace the call of a node; its users are evaluated again by `settle`."""
        old = self.node(identity)
        assert old is not None
        node = Node(identity, op, tuple(args), dict(kwargs), old.meta, old.where, old.line)
        self._nodes[identity] = node
        self._link(node, reads(old))
        self._dirty[identity] = None

    def redirect(self, user: int, old: int, new: int) -> None:
        """Let one node read another value."""
        node = self.node(user)
        assert node is not None
        self.change(user, node.op, *renamed(node, {old: new}))

    def redirect_all(self, old: int, new: int, keep: Sequence[int] = ()) -> None:
        """Let every later node, and the outputs, read another value; `keep` still read the old one."""
        after = self.order(new)
        for user in list(self.users(old)):
            if user not in keep and user != new and self.order(user) > after:
                self.redirect(user, old, new)
        if self.is_output(old):
            self.replace_output(old, new)

    def output_ids(self) -> frozenset[int]:
        return self._output_ids

    def replace_output(self, old: int, new: int) -> None:
        """Return another value instead."""
        self._outputs = map_leaves(self._outputs, lambda leaf: Ref(new) if type(leaf) is Ref and leaf == old else leaf)
        self._output_ids = self._output_ids - {old} | {new}

    def before_users(self, identity: int) -> int:
        """The anchor in front of every node that reads a value."""
        return min(self.users(identity), key=self.order, default=END)

    def constant(self, recipe: Recipe, shape: Sequence[int], dtype: str) -> Ref:
        """A new constant, made from its recipe."""
        meta = TensorMeta(tuple(shape), dtype, contiguous_stride(tuple(shape)))
        name, found = _look_at(recipe, meta)
        identity = self._next
        self._next += 1
        self._constants[identity] = Constant(identity, f"made_{identity}", meta, name, recipe)
        self._values[identity] = found
        return Ref(identity)

    def change_constant(self, identity: int, recipe: Recipe) -> None:
        """Other numbers for a constant of the same meta."""
        old = self._constants.get(identity) or self.base.constants[identity]
        name, found = _look_at(recipe, old.meta)
        self._constants[identity] = replace(old, digest=name, made=recipe)
        self._set(identity, found)

    def change_input(self, identity: int, recipe: Recipe, meta: TensorMeta | None = None) -> None:
        """Other numbers, and perhaps another shape, for an input."""
        old = self.input(identity)
        meta = meta or old.meta
        self._inputs[identity] = replace(old, meta=meta)
        self._example[identity] = recipe
        self._set(identity, _look_at(recipe, meta)[1])

    def input(self, identity: int) -> Input:
        found = self._inputs.get(identity)
        return found or next(item for item in self.base.program.inputs if item.id == identity)

    def example(self, identity: int) -> Recipe:
        """The recipe of an input as it stands."""
        return self._example.get(identity) or self.base.example(identity)

    def add_output(self, identity: int) -> None:
        """Return one more value."""
        self._outputs = (self._outputs, Ref(identity))
        self._output_ids = self._output_ids | {identity}

    def overwritten(self, identity: int, writer: int) -> None:
        """A node writes to a value: what comes after it reads what it gave."""
        after = self.order(writer)
        self._values[identity] = self.tensor(writer)
        self._dirty.update((user, None) for user in self.users(identity) if self.order(user) > after)

    def expect_refusal(self, identity: int) -> str:
        """The reason why a changed node is invalid; Refused when it is accepted."""
        node = self.node(identity)
        assert node is not None
        try:
            self.rules.evaluate(node.op, node.args, node.kwargs, self.known)
        except Refused as refusal:
            self.trust = self.trust | {identity}
            return str(refusal)
        raise Refused("eager accepts it")

    def settle(self) -> int:
        """Evaluate again what a change reaches; the number of evaluations. Refused when a node rejects its inputs."""
        heap = [(self.order(identity), identity) for identity in self._dirty]
        heapq.heapify(heap)
        waiting, self._dirty, count = set(self._dirty), {}, 0
        while heap:
            _, identity = heapq.heappop(heap)
            waiting.discard(identity)
            node = self.node(identity)
            if node is None:
                continue
            count += 1
            try:
                found = self.rules.evaluate(node.op, node.args, node.kwargs, self.known)
            except Refused:
                if identity not in self.trust:
                    raise
                continue
            old = self.known(identity)
            if found is old or _same(found, old):
                continue
            self._guard(found)
            self._values[identity] = found
            for user in self.users(identity):
                if user not in waiting:
                    waiting.add(user)
                    heapq.heappush(heap, (self.order(user), user))
        return count

    def sweep(self, identity: int) -> None:
        """Remove a value that nothing reads any more, and what only it read."""
        pending = [identity]
        while pending:
            current = pending.pop()
            if self.users(current) or self.is_output(current):
                continue
            node = self.node(current)
            if node is None:
                self._drop_constant(current)
                continue
            if ops.mutated_arguments(node.op):
                continue
            self._nodes[current] = None
            before = reads(node)
            for reference in before:
                self._owned_users(reference).remove(current)
            pending += before

    # Undoing and finishing

    def checkpoint(self) -> tuple[Any, ...]:
        """The state to go back to."""
        users = {key: list(found) for key, found in self._users.items()}
        return (
            self._next, dict(self._nodes), dict(self._values), users, self._order.copy(), dict(self._constants),
            dict(self._inputs), dict(self._example), self._outputs, self._output_ids, self.trust, self.allow_poison,
            len(self.steps), self.plan,
        )  # fmt: skip

    def restore(self, state: tuple[Any, ...]) -> None:
        """Undo everything since the checkpoint."""
        (
            self._next, self._nodes, self._values, self._users, self._order, self._constants,
            self._inputs, self._example, self._outputs, self._output_ids, self.trust, self.allow_poison, steps,
            self.plan,
        ) = state  # fmt: skip
        del self.steps[steps:]
        self._dirty = {}

    def build(self, name: str) -> Program:
        """The changed program, complete; unchanged stretches of the base are taken over as they are."""
        program, old = self.base.program, self.base.program.nodes
        inserted = self._order.inserted()
        touched = {self.base.position[i] for i in (*self._nodes, *self._values) if i in self.base.position}
        nodes: list[Node] = []
        done = 0
        for index in sorted(touched | inserted.keys()):
            nodes += old[done:index]
            nodes += [self._final(i) for i in inserted.get(index, ()) if self._nodes[i] is not None]
            if index in touched and self.node(old[index].id) is not None:
                nodes.append(self._final(old[index].id))
            done = index + 1 if index in touched else index
        nodes += old[done:]
        replaced = self._constants
        kept = [replaced.get(c.id, c) for c in program.constants] if replaced else program.constants
        added = [c for i, c in replaced.items() if i >= self.base.next_id]
        return Program(
            name=name,
            inputs=tuple(self._inputs.get(item.id, item) for item in program.inputs),
            constants=tuple(c for c in (*kept, *added) if c is not None),
            nodes=tuple(nodes),
            outputs=self._outputs,
            example=tuple(self._example.get(i.id, recipe) for i, recipe in zip(program.inputs, program.example)),
        )

    def outputs_poisoned(self) -> bool:
        """Whether no floating output holds a finite number."""
        found = [self.known(int(leaf)) for _, leaf in leaves(self._outputs) if isinstance(leaf, Ref)]
        tensors = [item for item in found if isinstance(item, Value)]
        floating = [item for item in tensors if item.is_float or item.dtype.is_complex]
        return bool(floating) and len(floating) == len(tensors) and all(t.range.poison >= MOSTLY for t in floating)

    def _final(self, identity: int) -> Node:
        node = self.node(identity)
        assert node is not None
        meta = meta_of(self.known(identity))
        if meta == node.meta:
            return node
        return Node(identity, node.op, node.args, node.kwargs, meta, node.where, node.line)

    def _guard(self, found: Result) -> None:
        if not self.allow_poison and isinstance(found, Value) and found.range.poison >= MOSTLY:
            raise Refused("the result would not be finite")

    def _set(self, identity: int, found: Result) -> None:
        if not _same(found, self.known(identity)):
            self._values[identity] = found
            self._dirty.update(dict.fromkeys(self.users(identity)))

    def _link(self, node: Node, before: Sequence[int]) -> None:
        """Keep the users index: the node reads what it refers to now, and no longer what it did before."""
        now = reads(node)
        for reference in now:
            users = self._owned_users(reference)
            if node.id not in users:
                users.append(node.id)
        for reference in before:
            if reference not in now:
                self._owned_users(reference).remove(node.id)
                self.sweep(reference)

    def _owned_users(self, identity: int) -> list[int]:
        found = self._users.get(identity)
        if found is None:
            found = self._users[identity] = list(self.base.users.get(identity, ()))
        return found

    def _drop_constant(self, identity: int) -> None:
        if identity in self._constants or identity in self.base.constants:
            self._constants[identity] = None


def _look_at(recipe: Recipe, meta: TensorMeta) -> tuple[str, Value]:
    """The digest of the tensor that a recipe makes, and what is known of it; small constants come again and again."""
    key = (recipe, meta)
    found = _LOOKED_AT.get(key)
    if found is None:
        tensor = recreate(recipe, meta)
        if len(_LOOKED_AT) >= _MOST_LOOKED_AT:
            _LOOKED_AT.clear()
        found = _LOOKED_AT[key] = (digest(tensor), of_tensor(tensor))
    return found


_LOOKED_AT: dict[tuple[Recipe, TensorMeta], tuple[str, Value]] = {}
_MOST_LOOKED_AT: Final = 4096


def _same(found: Result, old: Result) -> bool:
    """Whether users need not be evaluated again."""
    if isinstance(found, Value):
        return isinstance(old, Value) and found.within(old)
    both = isinstance(found, tuple) and isinstance(old, tuple) and len(found) == len(old)
    return both and all(map(_same, found, old))  # type: ignore[arg-type]


def renamed(node: Node, names: Mapping[int, int]) -> tuple[tuple[Argument, ...], dict[str, Argument]]:
    """The arguments of a node with some references replaced."""
    args, kwargs = substitute_all(node.args, node.kwargs, lambda ref: Ref(names.get(ref, ref)))
    return tuple(args), kwargs


def meta_of(found: Result) -> NodeMeta:
    if isinstance(found, Value):
        return found.meta
    return tuple(meta_of(item) for item in found) if isinstance(found, tuple) else None

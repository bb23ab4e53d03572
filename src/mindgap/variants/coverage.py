"""Which operators, contexts and neighbours the variants have reached, and what to ask for next."""

from __future__ import annotations

from collections import Counter
from random import Random
from typing import Any, Final

from mindgap.program.graph import Argument, Node, NodeMeta, Program, Ref
from mindgap.records.tensors import TensorMeta
from mindgap.variants import catalogue
from mindgap.variants.base import Base
from mindgap.variants.values import Value, contiguous_stride
from mindgap.variants.walk import reads

_LOOK_AT: Final = 12  # operators compared for each choice: enough to find a rare one, and cheap


class Coverage:
    """What was reached so far."""

    def __init__(self) -> None:
        self.operators: Counter[str] = Counter()
        self.contexts: set[int] = set()
        """Hashes of (operator, dtype, rank, layout, class of its literals): there are many, and only counted."""
        self.pairs: set[tuple[str, str]] = set()
        """(producer, consumer)"""
        self._asked: Counter[str] = Counter()

    def add(self, program: Program, base: Base) -> None:
        """Count what differs in a program from its base."""
        own = base.objects
        fresh = [node for node in program.nodes if id(node) not in own]
        changed = {node.id: node for node in fresh}
        given = {item.id: item.meta for item in program.inputs}
        given.update((c.id, c.meta) for c in program.constants if c.id >= base.next_id)
        nodes, position = base.program.nodes, base.position
        for node in fresh:
            self.operators[node.op] += 1
            first: NodeMeta = None
            for reference in reads(node):
                producer = changed.get(reference)
                if producer is None and reference in position:
                    producer = nodes[position[reference]]
                meta = producer.meta if producer is not None else given.get(reference)
                if producer is not None:
                    self.pairs.add((producer.op, node.op))
                elif meta is None:
                    found = base.values.get(reference)
                    meta = found.meta if isinstance(found, Value) else None
                first = first or meta
            self.contexts.add(hash((node.op, *_context(first), literal_class(node))))

    def focus(self, rng: Random, names: tuple[str, ...] | None = None) -> tuple[str, ...]:
        """Operators to use next: the least covered of a few; what was asked for in vain counts as well."""
        pool = catalogue.functional() if names is None else names
        chosen = []
        for _ in range(2):
            some = [pool[int(rng.random() * len(pool))] for _ in range(_LOOK_AT)]
            best = min(some, key=lambda op: self.operators[op] + self._asked[op])
            self._asked[best] += 1
            chosen.append(best)
        return tuple(chosen)

    def count_operators(self) -> int:
        """Distinct overloads of ATen."""
        return sum(name.startswith("aten.") for name in self.operators)


def _context(meta: NodeMeta) -> tuple[Any, ...]:
    if not isinstance(meta, TensorMeta):
        return ("-", 0, "-")
    return (meta.dtype, len(meta.shape), layout_of(meta))


def layout_of(meta: TensorMeta) -> str:
    """A layout in one word."""
    if meta.stride == contiguous_stride(meta.shape):
        return "dense"
    if any(step == 0 and size > 1 for step, size in zip(meta.stride, meta.shape)):
        return "expanded"
    span = 1 + sum((size - 1) * step for size, step in zip(meta.shape, meta.stride) if size)
    count = 1
    for size in meta.shape:
        count *= size
    return "permuted" if span == count else "sliced"


def literal_class(node: Node) -> str:
    """What kind of literals a call has: names of the keywords, and which numbers are zero, negative or one."""
    parts = [_literal(argument) for argument in node.args]
    parts += [f"{key}:{_literal(item)}" for key, item in node.kwargs.items()]
    return "".join(parts)


def _literal(leaf: Argument) -> str:
    kind = type(leaf)
    if kind is Ref:
        return "%"
    if kind is list or kind is tuple:
        return "".join([_literal(item) for item in leaf])
    if isinstance(leaf, bool) or leaf is None or isinstance(leaf, str):
        return str(leaf)[:1]
    if isinstance(leaf, int | float):
        return "0" if leaf == 0 else "-" if leaf < 0 else "1" if leaf == 1 else "+"
    return "?"

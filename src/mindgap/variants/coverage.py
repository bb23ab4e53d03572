"""Which operators, contexts and neighbours the variants have reached, and what to ask for next."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from random import Random
from typing import Any, Final

from mindgap.program.graph import Argument, Node, NodeMeta, Program, Ref
from mindgap.records.tensors import TensorMeta
from mindgap.variants import catalogue
from mindgap.variants.base import Base
from mindgap.variants.values import Value, contiguous_stride
from mindgap.variants.walk import reads

_LOOK_AT: Final = 12  # operators compared for each choice: enough to find a rare one, and cheap
_MUTATIONS_LOOK_AT: Final = 4
_MUTATION_ASKED: Final = 0.7
"""Share of variants that begin with the mutation that gains most: the others find out what else would."""
_RECENT: Final = 0.05
"""Weight of the last variant in what a mutation is expected to gain."""


class Coverage:
    """What was reached so far."""

    def __init__(self) -> None:
        self.operators: Counter[str] = Counter()
        self.contexts: set[int] = set()
        """Hashes of (operator, dtype, rank, layout, class of its literals): there are many, and only counted."""
        self.pairs: set[tuple[str, str]] = set()
        """(producer, consumer)"""
        self._asked: Counter[str] = Counter()
        self._gains: dict[str, float] = {}
        """New contexts and pairs that recent variants with this mutation brought."""

    def add(self, program: Program, base: Base, mutations: Sequence[str] = ()) -> None:
        """Count what differs in a program from its base, and credit its mutations with what is new."""
        before = len(self.contexts) + len(self.pairs)
        self._count(program, base)
        gain = len(self.contexts) + len(self.pairs) - before
        for name in mutations:
            expected = self._gains.setdefault(name, gain)
            self._gains[name] = expected + _RECENT * (gain - expected)

    def _count(self, program: Program, base: Base) -> None:
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

    def focus(self, rng: Random, mutations: Sequence[str] = ()) -> tuple[str, ...]:
        """What to use next: operators, the least covered of a few (what was asked for in vain counts as well), and
        mostly also the mutation of a few that gains most new contexts and pairs."""
        pool = catalogue.functional()
        chosen = []
        for _ in range(2):
            some = [pool[int(rng.random() * len(pool))] for _ in range(_LOOK_AT)]
            best = min(some, key=lambda op: self.operators[op] + self._asked[op])
            self._asked[best] += 1
            chosen.append(best)
        if mutations and rng.random() < _MUTATION_ASKED:
            candidates = [mutations[int(rng.random() * len(mutations))] for _ in range(_MUTATIONS_LOOK_AT)]
            chosen.append(max(candidates, key=lambda name: self._gains.get(name, math.inf)))
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
    return "permuted" if span == math.prod(meta.shape) else "sliced"


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

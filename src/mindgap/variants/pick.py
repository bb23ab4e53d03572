"""Random choices of what a mutation acts on."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from mindgap.program import ops
from mindgap.program.graph import Node, Ref
from mindgap.variants import catalogue
from mindgap.variants.base import is_frozen
from mindgap.variants.draft import Draft
from mindgap.variants.rules import Refused
from mindgap.variants.values import Value
from mindgap.variants.walk import reads

T = TypeVar("T")

_TRIES = 8  # draws before a scan of the whole graph would be cheaper; none is made, another mutation comes


def edge(draft: Draft, floating: bool = False, rank: int = 0) -> tuple[int, Ref]:
    """A node and a tensor that it reads."""
    for _ in range(_TRIES):
        node = draft.pick_node()
        if is_frozen(node):
            continue
        read = [Ref(r) for r in reads(node) if _fits(draft, r, floating, rank)]
        if read:
            return node.id, draft.rng.choice(read)
    raise Refused("no edge carries such a tensor")


def tensor_node(draft: Draft, floating: bool = False) -> Node:
    """A node that gives one tensor, writes to none and may be replaced."""
    for _ in range(_TRIES):
        node = draft.pick_node()
        if not is_frozen(node) and not writes(node) and _fits(draft, node.id, floating, 0):
            return node
    raise Refused("no node gives such a tensor")


def one(draft: Draft, options: Sequence[T], otherwise: str) -> T:
    """A random option; refused with the words `otherwise` when there is none."""
    if not options:
        raise Refused(otherwise)
    return draft.rng.choice(options)


def output(draft: Draft, fits: Callable[[Value], bool], otherwise: str) -> Ref:
    """An output that is a tensor, and one that fits."""
    known = [(i, draft.known(i)) for i in sorted(draft.output_ids())]
    return Ref(one(draft, [i for i, found in known if isinstance(found, Value) and fits(found)], otherwise))


def writes(node: Node) -> bool:
    """Whether a node changes one of its arguments."""
    return bool(ops.mutated_arguments(node.op))


def operator(draft: Draft, arity: int | None = None) -> str:
    """An operator: one that the synthesis asks for, or any that takes `arity` tensors."""
    wanted = [op for op in draft.focus if arity is None or catalogue.arity(op) == arity]
    if wanted:
        draft.focus.remove(wanted[0])
        return wanted[0]
    return draft.rng.choice(catalogue.functional() if arity is None else catalogue.of_arity(arity))


def _fits(draft: Draft, identity: int, floating: bool, rank: int) -> bool:
    found = draft.known(identity)
    return isinstance(found, Value) and found.numel > 0 and found.rank >= rank and (found.is_float or not floating)

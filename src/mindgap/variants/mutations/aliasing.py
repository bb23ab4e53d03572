"""Writes: in-place operators, writes through views, overlapping copies, inputs that are changed, aliases returned."""

from __future__ import annotations

import functools
from typing import Final

import torch

from mindgap.program.graph import Node, Ref
from mindgap.program.inputs import copy_of
from mindgap.variants import adapt, catalogue, pick
from mindgap.variants.draft import Draft
from mindgap.variants.fill import emit
from mindgap.variants.order import END
from mindgap.variants.registry import Family, mutation
from mindgap.variants.rules import Refused
from mindgap.variants.values import Value

_WRITES: Final = ("aten.add_.Tensor", "aten.mul_.Tensor", "aten.copy_.default", "aten.sub_.Tensor")


@functools.cache
def _in_place(op: str) -> str | None:
    namespace, name, overload = op.split(".")
    twin = f"{namespace}.{name}_.{overload}"
    return twin if twin in catalogue.in_place() else None


@mutation(Family.ALIASING, "a node whose operator has an in-place form", weight=2.0)
def make_in_place(draft: Draft) -> str:
    """Let an operator overwrite its first operand; whoever reads that later reads the result."""
    for _ in range(8):
        node = pick.tensor_node(draft)
        twin = _in_place(node.op)
        if twin is not None and node.args and type(node.args[0]) is Ref:
            draft.change(node.id, twin, node.args, node.kwargs)
            draft.settle()
            draft.overwritten(node.args[0], node.id)
            return f"make {node.op} in-place at node {node.id}"
    raise Refused("no operator has an in-place form")


@mutation(Family.ALIASING, "an edge that carries a tensor", weight=2.0)
def insert_in_place(draft: Draft) -> str:
    """Overwrite a value with an in-place operator before it is read."""
    user, source = pick.edge(draft)
    op = draft.rng.choice(catalogue.in_place())
    _overwrite(draft, user, op, source)
    return f"overwrite %{int(source)} with {op} in front of node {user}"


@mutation(Family.ALIASING, "an input that is read")
def mutate_input(draft: Draft) -> str:
    """Overwrite an input of the program before it is read."""
    inputs = [item.id for item in draft.base.program.inputs if draft.users(item.id)]
    source = Ref(pick.one(draft, inputs, "no input is read"))
    op = draft.rng.choice(catalogue.in_place())
    _overwrite(draft, draft.before_users(source), op, source)
    return f"overwrite input %{int(source)} with {op}"


def _overwrite(draft: Draft, anchor: int, op: str, source: Ref) -> None:
    writer = emit(draft, anchor, op, [source])
    node = draft.node(writer)
    if node is None or node.args[0] != source:
        raise Refused("the operator needs another shape or dtype")
    draft.overwritten(source, writer)


@mutation(Family.ALIASING, "an edge that carries a floating tensor of one dimension or more", weight=2.0)
def write_through_view(draft: Draft) -> str:
    """Write to a view of a value: a slice, a row, a transposition; the value changes with it."""
    user, source = pick.edge(draft, floating=True, rank=1)
    view = _view(draft, user, source)
    op = draft.rng.choice(_WRITES)
    found = draft.tensor(view)
    other = adapt.fit(draft, user, draft.insert(user, "aten.clone.default", [source]), found)
    draft.insert(user, op, [view, other])
    return f"write to a view of %{int(source)} with {op} in front of node {user}"


@mutation(Family.ALIASING, "an edge that carries a tensor with a dimension of three or more")
def overlapping_copy(draft: Draft) -> str:
    """Copy a slice of a value onto another slice of it that overlaps the first."""
    user, source = pick.edge(draft, rank=1)
    found = draft.tensor(source)
    dim = draft.rng.randrange(found.rank)
    size = found.shape[dim]
    if size < 3:
        raise Refused("the dimension is too short")
    shift = draft.rng.choice((1, 1, 2))
    later = draft.insert(user, "aten.slice.Tensor", [source, dim, shift, size])
    earlier = draft.insert(user, "aten.slice.Tensor", [source, dim, 0, size - shift])
    pair = [later, earlier] if draft.rng.random() < 0.5 else [earlier, later]
    _require_overlap(found, dim, shift, pair[0] is later)
    draft.insert(user, "aten.copy_.default", pair)
    return f"copy %{int(source)} onto itself with a shift of {shift} in front of node {user}"


@mutation(Family.ALIASING, "an output that is a tensor of one dimension or more")
def return_alias(draft: Draft) -> str:
    """Return a view of an output besides the output."""
    source = pick.output(draft, lambda found: found.rank > 0 and found.numel > 0, "no output has a dimension")
    draft.add_output(_view(draft, END, source))
    return f"return a view of output %{int(source)} as well"


@mutation(Family.ALIASING, "a node that overwrites its first operand", weight=0.5)
def make_functional(draft: Draft) -> str:
    """Let an in-place operator give a new tensor instead."""
    for _ in range(8):
        node = draft.pick_node()
        twin = _functional(node)
        if twin is not None:
            draft.change(node.id, twin, node.args, node.kwargs)
            return f"let {node.op} give a new tensor at node {node.id}"
    raise Refused("no node writes")


def _functional(node: Node) -> str | None:
    parts = node.op.split(".")
    if len(parts) != 3 or not parts[1].endswith("_") or not pick.writes(node):
        return None
    twin = f"{parts[0]}.{parts[1][:-1]}.{parts[2]}"
    return twin if catalogue.signature(twin) is not None else None


def _require_overlap(found: Value, dim: int, shift: int, forwards: bool) -> None:
    """Eager refuses an overlap that it can prove; only a real tensor tells which."""
    whole = copy_of(found.sample())
    size = found.shape[dim]
    later, earlier = whole.narrow(dim, shift, size - shift), whole.narrow(dim, 0, size - shift)
    try:
        torch.ops.aten.copy_.default(*((later, earlier) if forwards else (earlier, later)))
    except RuntimeError as error:
        raise Refused("eager refuses this overlap") from error


def _view(draft: Draft, anchor: int, source: Ref) -> Ref:
    found = draft.tensor(source)
    dim = draft.rng.randrange(found.rank)
    size = found.shape[dim]
    kind = draft.rng.randrange(3)
    if kind == 0 and found.rank > 1:
        return draft.insert(anchor, "aten.transpose.int", [source, dim, draft.rng.randrange(found.rank)])
    if kind == 1:
        return draft.insert(anchor, "aten.select.int", [source, dim, draft.rng.randrange(size)])
    start = draft.rng.randrange(size)
    return draft.insert(anchor, "aten.slice.Tensor", [source, dim, start, size, draft.rng.choice((1, 2))])

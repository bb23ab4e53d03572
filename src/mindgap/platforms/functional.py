"""Writes through views, and to what has views, as plain values.

`y = x[0]; y.mul_(2); x.sum()` becomes `y = x[0]; z = y.clone().mul_(2); x = x.select_scatter(z, 0, 0); x.sum()`: after
each write, all that shares its memory is made anew where it is read next. Runtimes only know values.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from mindgap.program import ops
from mindgap.program.graph import Node, Ref, map_leaves
from mindgap.program.operators import base_name
from mindgap.records.tensors import TensorMeta

CLONE: Final = "aten.clone.default"
ACCESS: Final = "operator.getitem"

_IN_ORDER: Final = frozenset(
    [
        "alias", "atleast_1d", "atleast_2d", "atleast_3d", "contiguous", "detach", "dropout", "expand", "expand_as",
        "flatten", "lift_fresh", "positive", "ravel", "reshape", "reshape_as", "squeeze", "to", "type_as", "unflatten",
        "_unsafe_view", "unsqueeze", "view", "view_as",
    ]
)  # fmt: skip
"""Views with the same elements in the same order, or those that may be: where they have as many."""


class NoInverse(Exception):
    """A view through which a write is not known to reach what it shows."""


class Functional:
    """The nodes of a program, one after the other, as nodes that write to nothing that is read in another way."""

    def __init__(self, metas: Mapping[int, Any], fresh: int) -> None:
        self.nodes: list[Node] = []
        self._metas = dict(metas)
        self._fresh = fresh
        self._views: dict[int, tuple[int, Node]] = {}
        """By view: what it shows, and the call that made it."""
        self._same: dict[int, int] = {}
        """By result of a write: what it was written to."""
        self._now: dict[int, tuple[int, int]] = {}
        """By value: where it stands now, and after how many writes to its memory."""
        self._writes: dict[int, int] = {}
        """By root: writes to its memory so far."""

    def add(self, node: Node, source: int | None, writes: bool) -> None:
        """The next node; `source` is the value whose memory its result may be."""
        if writes:
            self._same[node.id] = self._origin(int(node.args[0]))
            self._write(node)
            return
        if node.op == ACCESS and int(node.args[0]) in self._views:  # one of several views
            source = int(node.args[0])
        if source is not None:
            self._views[node.id] = (self._origin(source), node)
        self.nodes.append(self._with_current(node, node.id))
        self._now[node.id] = (node.id, self._writes.get(self._root(node.id), 0))

    def current(self, identity: int) -> int:
        """Where a value stands now; a view is made anew when its memory was written to since."""
        identity = self._origin(identity)
        root = self._root(identity)
        count = self._writes.get(root, 0)
        place, known = self._now.get(identity, (identity, 0))
        if known == count or identity not in self._views:
            return place
        node = self._with_current(self._views[identity][1], self._fresh)
        place = self._emit(node.op, node.args, node.kwargs, node.meta)
        self._now[identity] = (place, count)
        return place

    def _moved(self, leaf: Any) -> Any:
        return Ref(self.current(int(leaf))) if isinstance(leaf, Ref) else leaf

    def _with_current(self, node: Node, identity: int) -> Node:
        args, kwargs = map_leaves(node.args, self._moved), map_leaves(dict(node.kwargs), self._moved)
        return Node(identity, node.op, args, kwargs, node.meta)

    def _origin(self, identity: int) -> int:
        return self._same.get(identity, identity)

    def _root(self, identity: int) -> int:
        while identity in self._views:
            identity = self._views[identity][0]
        return identity

    def _emit(self, op: str, args: Any, kwargs: Mapping[str, Any], meta: Any) -> int:
        self.nodes.append(Node(self._fresh, op, args, kwargs, meta))
        self._metas[self._fresh] = meta
        self._fresh += 1
        return self._fresh - 1

    def _write(self, node: Node) -> None:
        target = self._origin(int(node.args[0]))
        given = self._with_current(node, node.id)
        copy = self._emit(CLONE, (Ref(self.current(target)),), {}, self._metas[target])
        self.nodes.append(Node(self._fresh, node.op, (Ref(copy), *given.args[1:]), given.kwargs, node.meta))
        self._fresh += 1
        root = self._root(target)
        count = self._writes.get(root, 0) + 1
        while target in self._views:
            source, view = self._views[target]
            call = self._views[source][1] if view.op == ACCESS else None
            if call is not None:
                source = self._views[source][0]
            copy = self._put_back(view, call, self.current(source), self._metas[source], copy, self._metas[target])
            target = source
        self._writes[root] = count
        self._now[root] = (copy, count)  # views of it, the one written to as well, are made anew: so does torch

    def _put_back(
        self, view: Node, call: Node | None, source: int, shown: TensorMeta, new: int, part: TensorMeta
    ) -> int:
        """What a view shows, after the view became something new; `call` made it and others."""
        found = _place_of(view, shown, part) if call is None else _place_among(call, int(view.args[1]))
        if found is None:
            raise NoInverse(view.op)
        op, args = found
        whole = (Ref(source), Ref(new), *args) if op.endswith("_scatter.default") else (Ref(new), *args)
        return self._emit(op, whole, {}, shown)


def _place_of(view: Node, shown: TensorMeta, part: TensorMeta) -> tuple[str, tuple[Any, ...]] | None:
    """Where a view lies in what it shows, or how it is undone."""
    known = _PLACES.get(view.op)
    if known is not None and not view.kwargs:
        return known(view.args[1:], len(shown.shape))
    same = shown.dtype == part.dtype and math.prod(shown.shape) == math.prod(part.shape)
    return ("aten.reshape.default", ([*shown.shape],)) if same and base_name(view.op) in _IN_ORDER else None


def _place_among(call: Node, number: int) -> tuple[str, tuple[Any, ...]] | None:
    """Where one of several views lies in what they show."""
    results: Sequence[TensorMeta] = call.meta  # type: ignore[assignment]
    position = ops.position_of(call.op, "dim")
    if position is None:
        return None
    dim = call.args[position] if position < len(call.args) else call.kwargs.get("dim", 0)
    if not isinstance(dim, int):
        return None
    if base_name(call.op) == "unbind":
        return "aten.select_scatter.default", (dim, number)
    if base_name(call.op) not in ("split", "split_with_sizes", "chunk", "tensor_split"):
        return None
    start = sum(meta.shape[dim] for meta in results[:number])
    return "aten.slice_scatter.default", (dim, start, start + results[number].shape[dim])


def _permuted(args: Sequence[Any], rank: int) -> tuple[str, tuple[Any, ...]]:
    order = [dim % rank for dim in args[0]]
    return "aten.permute.default", ([order.index(dim) for dim in range(rank)],)


def _narrowed(args: Sequence[Any], rank: int) -> tuple[str, tuple[Any, ...]]:
    dim, start, size = args
    return "aten.slice_scatter.default", (dim, start, start + size)


_PLACES: Final[dict[str, Callable[[Sequence[Any], int], tuple[str, tuple[Any, ...]]]]] = {
    "aten.select.int": lambda args, rank: ("aten.select_scatter.default", tuple(args)),
    "aten.slice.Tensor": lambda args, rank: ("aten.slice_scatter.default", tuple(args)),
    "aten.diagonal.default": lambda args, rank: ("aten.diagonal_scatter.default", tuple(args)),
    "aten.narrow.default": _narrowed,
    "aten.transpose.int": lambda args, rank: ("aten.transpose.int", tuple(args)),
    "aten.swapaxes.default": lambda args, rank: ("aten.transpose.int", tuple(args)),
    "aten.swapdims.default": lambda args, rank: ("aten.transpose.int", tuple(args)),
    "aten.t.default": lambda args, rank: ("aten.t.default", ()),
    "aten.mT.default": lambda args, rank: ("aten.transpose.int", (-2, -1)),
    "aten.permute.default": _permuted,
}
"""By view: how it is undone, or where its elements go."""

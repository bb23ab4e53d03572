"""Calls that eager rejects: a platform that accepts one computes something that nobody defined."""

from __future__ import annotations

from typing import Final

from mindgap.program.graph import Argument, Ref
from mindgap.program.operators import traits
from mindgap.records.tensors import DTYPES
from mindgap.variants import pick
from mindgap.variants.base import is_frozen
from mindgap.variants.draft import Draft
from mindgap.variants.mutations.arguments import pick_literal, with_literal
from mindgap.variants.registry import Family, mutation
from mindgap.variants.rules import Refused
from mindgap.variants.values import Value
from mindgap.variants.walk import reads

_DIMS: Final = ("dim", "dim0", "dim1", "start_dim", "end_dim", "dims")
_COUNTS: Final = (
    "stride", "kernel_size", "groups", "dilation", "num_groups", "size", "shape", "normalized_shape", "output_size",
    "padding", "k", "chunks", "split_size", "sizes", "split_sizes",
)  # fmt: skip


@mutation(Family.INVALID, "a node with a dimension argument", weight=2.0)
def dimension_out_of_range(draft: Draft) -> str:
    """Name a dimension that the tensor does not have."""
    node, parameter, held = pick_literal(draft, _DIMS)
    wrong = draft.rng.choice((9, -9, 64))
    fresh: Argument = [wrong, *list(held)[1:]] if isinstance(held, list | tuple) else wrong
    draft.change(node.id, node.op, *with_literal(node, parameter.name, fresh))
    return f"set {parameter.name} of {node.op} to {fresh!r} at node {node.id}: {draft.expect_refusal(node.id)}"


@mutation(Family.INVALID, "a node with a size, stride or count", weight=2.0)
def wrong_count(draft: Draft) -> str:
    """Give a size, stride, number of groups or kernel that cannot be."""
    node, parameter, held = pick_literal(draft, _COUNTS)
    wrong = draft.rng.choice((0, -1, -3, 1000, 7))
    if isinstance(held, list | tuple) and held and all(type(item) is int for item in held):
        fresh: Argument = list(held)
        fresh[draft.rng.randrange(len(fresh))] = wrong
    elif isinstance(held, int) and not isinstance(held, bool):
        fresh = wrong
    else:
        raise Refused("it is not a count")
    draft.change(node.id, node.op, *with_literal(node, parameter.name, fresh))
    return f"set {parameter.name} of {node.op} to {fresh!r} at node {node.id}: {draft.expect_refusal(node.id)}"


@mutation(Family.INVALID, "a node that reads two tensors", weight=2.0)
def operands_that_do_not_fit(draft: Draft) -> str:
    """Cut one operand so that the shapes no longer match."""
    user, source = pick.edge(draft, rank=1)
    found = draft.tensor(source)
    dim = draft.rng.randrange(found.rank)
    if found.shape[dim] < 3:
        raise Refused("the dimension is too short")
    cut = draft.insert(user, "aten.slice.Tensor", [source, dim, 0, found.shape[dim] - 1])
    draft.redirect(user, source, cut)
    return f"cut %{int(source)} short in front of node {user}: {draft.expect_refusal(user)}"


@mutation(Family.INVALID, "a node that reads two floating tensors")
def dtypes_that_do_not_fit(draft: Draft) -> str:
    """Cast one operand so that the dtypes no longer match."""
    user, source = pick.edge(draft, floating=True)
    dtype = draft.rng.choice(("float64", "float16", "int64"))
    if draft.tensor(source).meta.dtype == dtype:
        raise Refused("it has that dtype")
    draft.redirect(user, source, draft.insert(user, "aten.to.dtype", [source, DTYPES[dtype]]))
    return f"cast %{int(source)} to {dtype} in front of node {user}: {draft.expect_refusal(user)}"


@mutation(Family.INVALID, "a node that indexes")
def index_out_of_range(draft: Draft) -> str:
    """Let an index point behind the end or far before the beginning."""
    for _ in range(16):
        node = draft.pick_node()
        if is_frozen(node) or not traits(node.op).indexed:
            continue
        indices = [r for r in reads(node) if _is_index(draft, r)]
        if indices:
            source = Ref(draft.rng.choice(indices))
            shift = draft.rng.choice((100_000, -100_000, -1, 64))
            draft.redirect(node.id, source, draft.insert(node.id, "aten.add.Scalar", [source, shift]))
            return f"shift index %{int(source)} by {shift} in node {node.id}: {draft.expect_refusal(node.id)}"
    raise Refused("no node indexes")


def _is_index(draft: Draft, identity: int) -> bool:
    found = draft.known(identity)
    return isinstance(found, Value) and found.meta.dtype in ("int64", "int32")

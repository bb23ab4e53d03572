"""Other layouts of the same values: permuted, channels last, sliced out of something larger, expanded, offset."""

from __future__ import annotations

import torch

from mindgap.program.graph import Ref
from mindgap.variants import pick
from mindgap.variants.draft import Draft
from mindgap.variants.registry import Family, mutation
from mindgap.variants.rules import Refused


@mutation(Family.LAYOUT, "an edge that carries a tensor of four or five dimensions")
def channels_last(draft: Draft) -> str:
    """Lay a tensor out with channels last."""
    user, source = pick.edge(draft, rank=4)
    rank = draft.tensor(source).rank
    if rank > 5:
        raise Refused(f"there is no channels-last layout of {rank} dimensions")
    layout = torch.channels_last if rank == 4 else torch.channels_last_3d
    fresh = draft.insert(user, "aten.clone.default", [source], {"memory_format": layout})
    draft.redirect(user, source, fresh)
    return f"lay %{int(source)} out with channels last in front of node {user}"


@mutation(Family.LAYOUT, "an edge that carries a tensor of two dimensions or more", weight=1.5)
def transposed_layout(draft: Draft) -> str:
    """Lay a tensor out with two dimensions exchanged in memory; the values are the same."""
    user, source = pick.edge(draft, rank=2)
    first, second = draft.rng.sample(range(draft.tensor(source).rank), 2)
    turned = draft.insert(user, "aten.transpose.int", [source, first, second])
    dense = draft.insert(user, "aten.clone.default", [turned], {"memory_format": torch.contiguous_format})
    back = draft.insert(user, "aten.transpose.int", [dense, first, second])
    draft.redirect(user, source, back)
    return f"exchange dimensions {first} and {second} of %{int(source)} in memory in front of node {user}"


@mutation(Family.LAYOUT, "an edge that carries a tensor of one dimension or more", weight=1.5)
def sliced_layout(draft: Draft) -> str:
    """Cut a tensor out of a larger one, so that it has gaps and an offset in its storage."""
    user, source = pick.edge(draft, rank=1)
    found = draft.tensor(source)
    dim = draft.rng.randrange(found.rank)
    size, before = found.shape[dim], draft.rng.choice((0, 1, 3))
    pads = [0] * (2 * (found.rank - 1 - dim)) + [before, 2]
    larger = draft.insert(user, "aten.constant_pad_nd.default", [source, pads])
    cut = draft.insert(user, "aten.slice.Tensor", [larger, dim, before, before + size])
    draft.redirect(user, source, cut)
    return f"cut %{int(source)} out of a larger tensor along dimension {dim} in front of node {user}"


@mutation(Family.LAYOUT, "an edge that carries a tensor of one dimension or more")
def strided_layout(draft: Draft) -> str:
    """Take every second element of a tensor that holds each twice."""
    user, source = pick.edge(draft, rank=1)
    found = draft.tensor(source)
    doubled = draft.insert(user, "aten.repeat_interleave.self_int", [source, 2, found.rank - 1])
    cut = draft.insert(user, "aten.slice.Tensor", [doubled, found.rank - 1, 0, 2 * found.shape[-1], 2])
    draft.redirect(user, source, cut)
    return f"read %{int(source)} with a step of two in front of node {user}"


@mutation(Family.LAYOUT, "an edge that carries a tensor of one dimension or more")
def expanded_layout(draft: Draft) -> str:
    """Repeat one row of a tensor without copying it: a stride of zero."""
    user, source = pick.edge(draft, rank=1)
    found = draft.tensor(source)
    dim = draft.rng.randrange(found.rank)
    row = draft.insert(user, "aten.slice.Tensor", [source, dim, 0, 1])
    fresh = draft.insert(user, "aten.expand.default", [row, list(found.shape)])
    draft.redirect(user, source, fresh)
    return f"expand the first row of %{int(source)} along dimension {dim} in front of node {user}"


@mutation(Family.LAYOUT, "an edge that carries a tensor of one dimension or more")
def offset_layout(draft: Draft) -> str:
    """Let a dense tensor begin in the middle of its storage."""
    user, source = pick.edge(draft, rank=1)
    found = draft.tensor(source)
    both = draft.insert(user, "aten.stack.default", [[source, source]])
    fresh = draft.insert(user, "aten.select.int", [both, 0, 1])
    if draft.rng.random() < 0.5 and found.rank > 1:
        fresh = Ref(draft.insert(user, "aten.contiguous.default", [fresh]))
    draft.redirect(user, source, fresh)
    return f"let %{int(source)} begin in the middle of its storage in front of node {user}"

"""Small operators that make a value fit where another was: cast, view, expand, cut and pad."""

from __future__ import annotations

import math
from collections.abc import Sequence

from mindgap.program.graph import Ref
from mindgap.records.tensors import DTYPES
from mindgap.variants.draft import Draft
from mindgap.variants.rules import Refused
from mindgap.variants.values import Value


def cast(draft: Draft, anchor: int, source: Ref, dtype: str) -> Ref:
    """The value in another dtype."""
    found = draft.tensor(source)
    if found.meta.dtype == dtype:
        return source
    if found.dtype.is_complex and not dtype.startswith("complex"):
        source = draft.insert(anchor, "aten.real.default", [source])
        if draft.tensor(source).meta.dtype == dtype:
            return source
    return draft.insert(anchor, "aten.to.dtype", [source, DTYPES[dtype]])


def reshape(draft: Draft, anchor: int, source: Ref, shape: Sequence[int]) -> Ref:
    """The value in another shape: viewed, expanded, or its elements in order cut or padded to fit."""
    found, shape = draft.tensor(source), tuple(shape)
    if found.shape == shape:
        return source
    count = math.prod(shape)
    if found.numel == count:
        return draft.insert(anchor, "aten.reshape.default", [source, list(shape)])
    if _broadcasts(found.shape, shape):
        return draft.insert(anchor, "aten.expand.default", [source, list(shape)])
    flat = draft.insert(anchor, "aten.reshape.default", [source, [found.numel]])
    if found.numel > count:
        flat = draft.insert(anchor, "aten.slice.Tensor", [flat, 0, 0, count])
    else:
        flat = draft.insert(anchor, "aten.constant_pad_nd.default", [flat, [0, count - found.numel]])
    return draft.insert(anchor, "aten.reshape.default", [flat, list(shape)])


def fit(draft: Draft, anchor: int, source: Ref, like: Value) -> Ref:
    """The value in the shape and dtype of another."""
    return cast(draft, anchor, reshape(draft, anchor, source, like.shape), like.meta.dtype)


def with_rank(draft: Draft, anchor: int, source: Ref, rank: int) -> Ref:
    """The value with `rank` dimensions: leading ones are merged, or dimensions of size one added."""
    shape = list(draft.tensor(source).shape)
    while len(shape) > rank:
        shape[:2] = [shape[0] * shape[1]]
    if rank == 0 or not all(shape):
        raise Refused("an empty tensor has no other rank")
    shape = [1] * (rank - len(shape)) + shape
    return reshape(draft, anchor, source, shape)


def first_tensor(draft: Draft, anchor: int, source: Ref) -> Ref:
    """A tensor of a result that may be several."""
    found = draft.known(source)
    if isinstance(found, Value):
        return source
    if not isinstance(found, tuple):
        raise Refused("the operator gives no tensor")
    usable = [i for i, item in enumerate(found) if isinstance(item, Value) and item.numel]
    if not usable:
        raise Refused("the operator gives no tensor")
    return draft.insert(anchor, "operator.getitem", [source, draft.rng.choice(usable)])


def _broadcasts(shape: tuple[int, ...], target: tuple[int, ...]) -> bool:
    if len(shape) > len(target):
        return False
    return all(a in (1, b) for a, b in zip(reversed(shape), reversed(target)))

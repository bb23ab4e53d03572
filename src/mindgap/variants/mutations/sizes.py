"""Other sizes: no element, one, odd numbers, one past a SIMD width, broadcast operands."""

from __future__ import annotations

from typing import Final

from mindgap.program.graph import Node, Ref
from mindgap.program.made import Held, Recipe, Whole
from mindgap.program.operators import traits
from mindgap.records.tensors import TensorMeta
from mindgap.variants import adapt, pick
from mindgap.variants.draft import Draft
from mindgap.variants.fill import emit
from mindgap.variants.registry import Family, mutation
from mindgap.variants.rules import Refused
from mindgap.variants.values import contiguous_stride

_BATCHES: Final = (0, 1, 2, 3, 5, 7, 9, 17)
_LENGTHS: Final = (1, 2, 3, 5, 7, 9, 15, 17, 31, 33, 63, 65)
"""One element, odd counts, and one more or less than a vector of 8, 16, 32 or 64 holds."""


@mutation(Family.SIZES, "inputs with a common first dimension; literal sizes are followed where they can be")
def change_batch(draft: Draft) -> str:
    """Run with another batch size: none, one, odd."""
    inputs = [item for item in draft.base.program.inputs if item.meta.shape]
    if not inputs:
        raise Refused("no input has a dimension")
    old = inputs[0].meta.shape[0]
    new = draft.rng.choice([size for size in _BATCHES if size != old])
    for item in inputs:
        if item.meta.shape[0] == old:
            _resize(draft, item.id, (new, *item.meta.shape[1:]))
    for node in draft.base.program.nodes:
        _follow(draft, node, old, new)
    return f"change the batch size from {old} to {new}"


@mutation(Family.SIZES, "an input with an inner dimension that no literal fixes", weight=0.7)
def change_input_size(draft: Draft) -> str:
    """Change one inner dimension of an input: an image one pixel wider, a sequence one shorter."""
    inputs = [item for item in draft.base.program.inputs if len(item.meta.shape) > 1]
    item = pick.one(draft, inputs, "no input has an inner dimension")
    dim = draft.rng.randrange(1, len(item.meta.shape))
    shape = list(item.meta.shape)
    old = shape[dim]
    shape[dim] = max(1, draft.rng.choice((old + 1, old - 1, old * 2, old // 2, 17, 1)))
    if shape[dim] == old:
        raise Refused("the size is the same")
    for other in inputs:
        if other.meta.shape == item.meta.shape:
            _resize(draft, other.id, tuple(shape))
    return f"change dimension {dim} of input {item.name} from {old} to {shape[dim]}"


@mutation(Family.SIZES, "an edge that carries a tensor", weight=2.0)
def odd_length(draft: Draft) -> str:
    """Apply an operator to a piece of odd length: one element, 17, one past a vector; its result is fitted back."""
    user, source = pick.edge(draft)
    target = draft.tensor(source)
    length = draft.rng.choice(_LENGTHS)
    if target.rank and draft.rng.random() < 0.5:
        shape = [*target.shape[:-1], length]
        if target.numel // max(1, target.shape[-1]) * length > 1 << 16:
            shape = [length]
    else:
        shape = [length]
    piece = adapt.reshape(draft, user, source, shape)
    op = pick.operator(draft)
    fresh = emit(draft, user, op, [piece])
    draft.redirect(user, source, adapt.fit(draft, user, fresh, target))
    return f"apply {op} to {length} elements of %{int(source)} in front of node {user}"


@mutation(Family.SIZES, "an edge that carries a tensor of one dimension or more")
def empty_piece(draft: Draft) -> str:
    """Apply an operator to an empty piece of a tensor, and join what it gives with the tensor."""
    user, source = pick.edge(draft, rank=1)
    target = draft.tensor(source)
    dim = draft.rng.randrange(target.rank)
    piece = draft.insert(user, "aten.slice.Tensor", [source, dim, 0, 0])
    op = pick.operator(draft)
    fresh = emit(draft, user, op, [piece])
    found = draft.tensor(fresh)
    if found.shape == draft.tensor(piece).shape:
        fresh = adapt.cast(draft, user, fresh, target.meta.dtype)
        joined = draft.insert(user, "aten.cat.default", [[source, fresh], dim])
    elif found.numel:
        joined = draft.insert(user, "aten.add.Tensor", [source, adapt.fit(draft, user, fresh, target)])
    else:
        raise Refused("the result is empty in another shape")
    draft.redirect(user, source, joined)
    return f"apply {op} to an empty piece of %{int(source)} in front of node {user}"


@mutation(Family.SIZES, "an edge that carries a tensor of one dimension or more to an operator that broadcasts")
def broadcast_operand(draft: Draft) -> str:
    """Give an operator an operand of size one where it had more: it must broadcast."""
    user, source = pick.edge(draft, rank=1)
    target = draft.tensor(source)
    dim = draft.rng.randrange(target.rank)
    if target.shape[dim] < 2:
        raise Refused("the dimension has one element")
    draft.redirect(user, source, draft.insert(user, "aten.slice.Tensor", [source, dim, 0, 1]))
    return f"broadcast %{int(source)} along dimension {dim} in node {user}"


def _resize(draft: Draft, identity: int, shape: tuple[int, ...]) -> None:
    item = draft.input(identity)
    recipe: Recipe = draft.example(identity)
    if isinstance(recipe, Held):
        span = draft.tensor(identity).range
        recipe = Whole(0, item.name, int(span.low), int(span.high) + 1)
    draft.change_input(identity, recipe, TensorMeta(shape, item.meta.dtype, contiguous_stride(shape)))


def _follow(draft: Draft, node: Node, old: int, new: int) -> None:
    """Where a literal size is the old batch size, it becomes the new one."""
    known = traits(node.op)
    if not (known.reshapes or known.sized):
        return
    for index, argument in enumerate(node.args):
        if not isinstance(argument, list | tuple) or old not in argument or any(type(a) is Ref for a in argument):
            continue
        sizes = list(argument)
        sizes[sizes.index(old)] = new if known.sized or -1 in sizes or not new else -1
        args = list(node.args)
        args[index] = sizes
        if draft.node(node.id) is not None:
            draft.change(node.id, node.op, args, node.kwargs)
        return

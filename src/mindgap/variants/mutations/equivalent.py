"""Rewrites that leave the meaning alone: the variant must agree with its base."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final

import torch

from mindgap.program.graph import Node, Ref
from mindgap.records.tensors import DTYPES
from mindgap.variants import pick
from mindgap.variants.base import is_frozen
from mindgap.variants.draft import Draft
from mindgap.variants.registry import Family, mutation
from mindgap.variants.rules import Refused
from mindgap.variants.values import Value
from mindgap.variants.walk import reads

_WIDER: Final = {"float16": "float32", "bfloat16": "float32", "float32": "float64", "int8": "int64", "int32": "int64"}


def _edge(draft: Draft, floating: bool = True, rank: int = 0) -> tuple[int, Ref]:
    """An edge whose value no operator writes to: a copy of it would otherwise miss the write."""
    for _ in range(4):
        user, source = pick.edge(draft, floating, rank)
        node = draft.node(user)
        if source not in draft.base.written and node is not None and not pick.writes(node):
            return user, source
    raise Refused("every such value may be written to")


@mutation(Family.EQUIVALENT, "an edge that carries a floating tensor that nothing writes to")
def negate_twice(draft: Draft) -> str:
    """Negate a value twice."""
    user, source = _edge(draft)
    once = draft.insert(user, "aten.neg.default", [source])
    draft.redirect(user, source, draft.insert(user, "aten.neg.default", [once]))
    return f"negate %{int(source)} twice in front of node {user}"


@mutation(Family.EQUIVALENT, "an edge that carries a floating tensor that nothing writes to")
def multiply_by_one(draft: Draft) -> str:
    """Multiply by one, divide by one or subtract zero."""
    user, source = _edge(draft)
    op, number = draft.rng.choice((("aten.mul.Scalar", 1.0), ("aten.div.Scalar", 1.0), ("aten.sub.Scalar", 0.0)))
    draft.redirect(user, source, draft.insert(user, op, [source, number]))
    return f"apply {op} with {number} to %{int(source)} in front of node {user}"


@mutation(Family.EQUIVALENT, "an edge that carries a tensor of two dimensions or more that nothing writes to")
def transpose_twice(draft: Draft) -> str:
    """Exchange two dimensions in memory, or flip a dimension, and undo it."""
    user, source = _edge(draft, floating=False, rank=2)
    first, second = draft.rng.sample(range(draft.tensor(source).rank), 2)
    if draft.rng.random() < 0.5:
        flipped = draft.insert(user, "aten.flip.default", [source, [first]])
        back = draft.insert(user, "aten.flip.default", [flipped, [first]])
    else:
        turned = draft.insert(user, "aten.transpose.int", [source, first, second])
        dense = draft.insert(user, "aten.clone.default", [turned], {"memory_format": torch.contiguous_format})
        back = draft.insert(user, "aten.transpose.int", [dense, first, second])
    draft.redirect(user, source, back)
    return f"turn %{int(source)} and back in front of node {user}"


@mutation(Family.EQUIVALENT, "an edge that carries a tensor of one dimension or more that nothing writes to")
def split_and_join(draft: Draft) -> str:
    """Cut a tensor in two and join the pieces."""
    user, source = _edge(draft, floating=False, rank=1)
    found = draft.tensor(source)
    dim = draft.rng.randrange(found.rank)
    size = found.shape[dim]
    cut = draft.rng.randrange(size + 1)
    parts = draft.insert(user, "aten.split_with_sizes.default", [source, [cut, size - cut], dim])
    pieces = [draft.insert(user, "operator.getitem", [parts, index]) for index in (0, 1)]
    draft.redirect(user, source, draft.insert(user, "aten.cat.default", [pieces, dim]))
    return f"cut %{int(source)} at {cut} and join it again in front of node {user}"


@mutation(Family.EQUIVALENT, "an edge that carries a tensor that nothing writes to")
def flatten_and_restore(draft: Draft) -> str:
    """Flatten a tensor and give it its shape again."""
    user, source = _edge(draft, floating=False)
    found = draft.tensor(source)
    flat = draft.insert(user, "aten.reshape.default", [source, [found.numel]])
    draft.redirect(user, source, draft.insert(user, "aten.reshape.default", [flat, list(found.shape)]))
    return f"flatten %{int(source)} and restore it in front of node {user}"


@mutation(Family.EQUIVALENT, "an edge that carries a tensor of a dtype with a wider one")
def widen_and_narrow(draft: Draft) -> str:
    """Cast a value to a wider dtype and back."""
    user, source = _edge(draft, floating=False)
    name = draft.tensor(source).meta.dtype
    if name not in _WIDER:
        raise Refused("there is no wider dtype")
    wide = draft.insert(user, "aten.to.dtype", [source, DTYPES[_WIDER[name]]])
    draft.redirect(user, source, draft.insert(user, "aten.to.dtype", [wide, DTYPES[name]]))
    return f"widen %{int(source)} to {_WIDER[name]} and back in front of node {user}"


@mutation(Family.EQUIVALENT, "an edge that carries a tensor that nothing writes to")
def select_itself(draft: Draft) -> str:
    """Take the larger of a value and itself, or choose between them."""
    user, source = _edge(draft)
    if draft.rng.random() < 0.5:
        fresh = draft.insert(user, "aten.maximum.default", [source, source])
    else:
        mask = draft.insert(user, "aten.gt.Scalar", [source, 0])
        fresh = draft.insert(user, "aten.where.self", [mask, source, source])
    draft.redirect(user, source, fresh)
    return f"choose between %{int(source)} and itself in front of node {user}"


@mutation(Family.EQUIVALENT, "a sum or product of two tensors", weight=1.5)
def commute(draft: Draft) -> str:
    """Exchange the operands of a sum or product."""
    for _ in range(12):
        node = draft.pick_node()
        plain = node.op in ("aten.add.Tensor", "aten.mul.Tensor") and len(node.args) == 2 and not node.kwargs
        if plain and all(type(item) is Ref for item in node.args) and node.args[0] != node.args[1]:
            draft.change(node.id, node.op, tuple(reversed(node.args)), {})
            return f"exchange the operands of {node.op} at node {node.id}"
    raise Refused("there is no sum or product")


@mutation(Family.EQUIVALENT, "a node that has a known other form", weight=4.0)
def write_out(draft: Draft) -> str:
    """Write an operator out in simpler ones: linear, silu, relu, softmax, mean, layer_norm, gelu, rsqrt, sigmoid."""
    for _ in range(12):
        node = draft.pick_node()
        form = _FORMS.get(node.op)
        if form is None or is_frozen(node) or any(r in draft.base.written for r in (node.id, *reads(node))):
            continue
        if not isinstance(draft.known(node.id), Value):
            continue
        fresh = form(draft, node)
        if draft.tensor(fresh).meta.shape != draft.tensor(node.id).shape:
            raise Refused("the other form has another shape")
        draft.redirect_all(node.id, fresh)
        draft.sweep(node.id)
        return f"write {node.op} out at node {node.id}"
    raise Refused("no operator has another form")


def _linear(draft: Draft, node: Node) -> Ref:
    turned = draft.insert(node.id, "aten.t.default", [node.args[1]])
    product = draft.insert(node.id, "aten.matmul.default", [node.args[0], turned])
    bias = node.args[2] if len(node.args) > 2 else None
    return product if bias is None else draft.insert(node.id, "aten.add.Tensor", [product, bias])


def _silu(draft: Draft, node: Node) -> Ref:
    gate = draft.insert(node.id, "aten.sigmoid.default", [node.args[0]])
    return draft.insert(node.id, "aten.mul.Tensor", [node.args[0], gate])


def _relu(draft: Draft, node: Node) -> Ref:
    return draft.insert(node.id, "aten.clamp_min.default", [node.args[0], 0])


def _softmax(draft: Draft, node: Node) -> Ref:
    source, dim = node.args[0], node.args[1]
    if (len(node.args) > 2 and node.args[2] is not None) or node.kwargs or draft.tensor(source).range.poison:
        raise Refused("the softmax casts, or meets infinities")
    top = draft.insert(node.id, "aten.amax.default", [source, [dim], True])
    power = draft.insert(node.id, "aten.exp.default", [draft.insert(node.id, "aten.sub.Tensor", [source, top])])
    total = draft.insert(node.id, "aten.sum.dim_IntList", [power, [dim], True])
    return draft.insert(node.id, "aten.div.Tensor", [power, total])


def _mean(draft: Draft, node: Node) -> Ref:
    if node.kwargs:
        raise Refused("the mean casts")
    total = draft.insert(node.id, "aten.sum.dim_IntList", list(node.args))
    count = draft.tensor(node.args[0]).numel / max(1, draft.tensor(total).numel)
    return draft.insert(node.id, "aten.div.Scalar", [total, count])


def _layer_norm(draft: Draft, node: Node) -> Ref:
    source, shape = node.args[0], node.args[1]
    weight, bias = (*node.args[2:4], None, None)[:2]
    eps = node.args[4] if len(node.args) > 4 else 1e-5
    dims = list(range(-len(shape), 0))
    mean = draft.insert(node.id, "aten.mean.dim", [source, dims, True])
    centred = draft.insert(node.id, "aten.sub.Tensor", [source, mean])
    squared = draft.insert(node.id, "aten.mul.Tensor", [centred, centred])
    variance = draft.insert(node.id, "aten.mean.dim", [squared, dims, True])
    scale = draft.insert(node.id, "aten.rsqrt.default", [draft.insert(node.id, "aten.add.Scalar", [variance, eps])])
    result = draft.insert(node.id, "aten.mul.Tensor", [centred, scale])
    if weight is not None:
        result = draft.insert(node.id, "aten.mul.Tensor", [result, weight])
    return result if bias is None else draft.insert(node.id, "aten.add.Tensor", [result, bias])


def _gelu(draft: Draft, node: Node) -> Ref:
    if node.kwargs.get("approximate", "none") != "none":
        raise Refused("this gelu is approximate")
    source = node.args[0]
    scaled = draft.insert(node.id, "aten.mul.Scalar", [source, math.sqrt(0.5)])
    erf = draft.insert(node.id, "aten.erf.default", [scaled])
    weight = draft.insert(node.id, "aten.add.Scalar", [erf, 1.0])
    half = draft.insert(node.id, "aten.mul.Scalar", [source, 0.5])
    return draft.insert(node.id, "aten.mul.Tensor", [half, weight])


def _rsqrt(draft: Draft, node: Node) -> Ref:
    root = draft.insert(node.id, "aten.sqrt.default", [node.args[0]])
    return draft.insert(node.id, "aten.reciprocal.default", [root])


def _sigmoid(draft: Draft, node: Node) -> Ref:
    power = draft.insert(node.id, "aten.exp.default", [draft.insert(node.id, "aten.neg.default", [node.args[0]])])
    return draft.insert(node.id, "aten.reciprocal.default", [draft.insert(node.id, "aten.add.Scalar", [power, 1.0])])


def _sub(draft: Draft, node: Node) -> Ref:
    if node.kwargs or type(node.args[1]) is not Ref:
        raise Refused("the difference is scaled, or of a number")
    return draft.insert(
        node.id, "aten.add.Tensor", [node.args[0], draft.insert(node.id, "aten.neg.default", [node.args[1]])]
    )


def _cloned(draft: Draft, node: Node) -> Ref:
    copy = draft.insert(node.id, "aten.clone.default", [node.args[0]])
    twin = node.op.replace(".default", "_.default")
    return draft.insert(node.id, twin, [copy])


_FORMS: Final[dict[str, Callable[[Draft, Node], Ref]]] = {
    "aten.linear.default": _linear,
    "aten.silu.default": _silu,
    "aten.relu.default": _relu,
    "aten.softmax.int": _softmax,
    "aten.mean.dim": _mean,
    "aten.layer_norm.default": _layer_norm,
    "aten.gelu.default": _gelu,
    "aten.rsqrt.default": _rsqrt,
    "aten.sigmoid.default": _sigmoid,
    "aten.sub.Tensor": _sub,
    "aten.tanh.default": _cloned,
    "aten.exp.default": _cloned,
    "aten.sqrt.default": _cloned,
    "aten.neg.default": _cloned,
}

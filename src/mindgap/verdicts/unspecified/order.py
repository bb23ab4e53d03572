"""Sums whose partial sums leave the range of their type in one order and not in another."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final, NamedTuple

import torch

from mindgap.program import ops
from mindgap.program.graph import map_leaves
from mindgap.program.operators import traits
from mindgap.verdicts.floor import real_view
from mindgap.verdicts.runner import Call, default_dtype, tensors_in, widened
from mindgap.verdicts.terms import accumulates, length
from mindgap.verdicts.unspecified.rule import Rule


class _Orders(NamedTuple):
    """What the orders of a sum may come to, element by element; complex results as pairs."""

    rises: torch.Tensor
    """Some order overflows to +inf."""
    falls: torch.Tensor
    """Some order overflows to -inf."""
    clashes: torch.Tensor
    """Some order adds infinities of both signs."""
    value: torch.Tensor
    """The sum in float64."""

    @property
    def differ(self) -> torch.Tensor:
        return self.rises | self.falls | self.clashes


def may_add(op: str) -> bool:
    """Whether calls of an operator add up terms whose order may matter."""
    known = traits(op)
    return known.sums or known.transforms or ops.position_of(op, "accumulate") is not None


def _matches(call: Call) -> bool:
    """Whether the partial sums of some element overflow in one order of its terms and not in another.

    Partial sums lie between the sum of all negative terms and that of all positive ones. Both follow from the sum and
    from the sum of |terms|, which is what the operator gives for absolute values.
    """
    known = traits(call.op)
    if not call.is_operator or not (known.sums or known.transforms or accumulates(call)) or not _may_overflow(call):
        return False
    try:
        with default_dtype(torch.float64):
            call.note = _orders_of_transform(call) if known.transforms else _orders_of_sum(call)
    except (RuntimeError, TypeError, ValueError, NotImplementedError):
        return False  # there is no such kernel in float64
    return bool(call.note.differ.any())


def _may_overflow(call: Call) -> bool:
    """A bound that costs one pass over the arguments: the product of their largest elements, times their number."""
    given = [tensor for tensor in call.tensors() if tensor.numel() and tensor.dtype in _LARGEST]
    size = math.log2(2 * max((tensor.numel() for tensor in call.tensors()), default=0) or 1)
    for tensor in given:
        low, high = (float(edge) for edge in torch.aminmax(real_view(tensor)))
        if not (math.isfinite(low) and math.isfinite(high)):
            return True
        size += max(0.0, math.log2(max(-low, high, 1.0)))
    return bool(given) and size > min(math.log2(_LARGEST[tensor.dtype]) for tensor in given)


_LARGEST: Final = {
    kind: torch.finfo(kind).max
    for kind in (torch.float16, torch.bfloat16, torch.float32, torch.float64, torch.complex64, torch.complex128)
}


def _orders_of_sum(call: Call) -> _Orders:
    value = real_view(_made(call, lambda tensor: tensor))
    size = _made(call, lambda tensor: _finite(tensor).abs()).to(torch.float64)
    if value.shape == size.shape:
        finite = _made(call, _finite)
    else:  # of complex terms either part may have any of them
        size, finite = size.unsqueeze(-1).expand(value.shape), torch.zeros_like(value)
    largest = _LARGEST[_dtype(call)]
    terms = length(call) if traits(call.op).averages else 1
    unknown = size.isinf()  # not even float64 can tell the two sums apart
    above = (terms * (size + finite) / 2 > largest) | unknown
    below = (terms * (size - finite) / 2 > largest) | unknown
    # An infinite term stays infinite in every order, unless it meets the other infinity.
    endless = value.isinf() & ~unknown
    clashes = torch.where(endless, torch.where(value > 0, below, above), above & below)
    certain = (value.isnan() & ~unknown) | (value.abs() > largest) & ~(above & below) & ~endless
    return _Orders(above & ~endless & ~certain, below & ~endless & ~certain, clashes & ~certain, value)


def _orders_of_transform(call: Call) -> _Orders:
    """A Fourier transform adds up everything along its dimensions, times factors of size 1 and any sign."""
    value = real_view(_made(call, lambda tensor: tensor))
    terms = call.args[0].to(torch.complex128).abs().nan_to_num_(torch.inf)
    position = ops.position_of(call.op, "dim")
    dims = call.argument(position, "dim", ops.arguments_of(call.op)[position].default_value)
    size = terms.sum(list(range(terms.dim())) if dims is None else dims, keepdim=True)
    beyond = size > _LARGEST[_dtype(call)]
    if value.dim() > beyond.dim():
        beyond = beyond.unsqueeze(-1)
    beyond = beyond.expand(value.shape)
    return _Orders(beyond, beyond, beyond, value)


def _made(call: Call, change: Callable[[torch.Tensor], torch.Tensor]) -> torch.Tensor:
    """What the operator gives in float64 for changed tensors; numbers that weigh them are made positive with those."""

    def changed(leaf: Any) -> Any:
        is_number = isinstance(leaf, torch.Tensor) and leaf.dtype in _LARGEST
        return change(leaf) if is_number else leaf

    wide = widened(call, copies=True)
    written = wide.mutated()
    for tensor in written:
        if tensor.dtype in _LARGEST:
            tensor.copy_(change(tensor))
    keep = {id(tensor) for tensor in written}
    args = map_leaves(wide.args, lambda leaf: leaf if id(leaf) in keep else changed(leaf))
    kwargs = map_leaves(wide.kwargs, changed)
    sign = change(torch.tensor(-1.0, dtype=torch.float64)).item()
    kwargs |= {name: abs(kwargs[name]) for name in ("alpha", "beta") if sign > 0 and name in kwargs}
    made = replace(wide, args=args, kwargs=kwargs)
    result = made.make()
    return (made.mutated() if call.inplace else tensors_in(result))[0]


def _finite(tensor: torch.Tensor) -> torch.Tensor:
    return torch.nan_to_num(tensor, 0.0, 0.0, 0.0)


def _dtype(call: Call) -> torch.dtype:
    """The precision of the result."""
    asked = call.kwargs.get("dtype")
    given = [tensor.dtype for tensor in call.tensors() if tensor.dtype in _LARGEST]
    return asked if asked in _LARGEST else given[0]


def _in_another_order(call: Call, result: Any, attempt: int, generator: torch.Generator) -> Any:
    """NaN, either infinity, or the sum itself, wherever some order gives it."""
    orders: _Orders = call.note
    target = real_view(call.mutated()[0] if call.inplace else tensors_in(result)[0])
    if attempt == 3:
        target.copy_(torch.where(orders.differ, orders.value.to(target.dtype), target))
    else:
        where = (orders.clashes, orders.rises, orders.falls)[attempt]
        target.masked_fill_(where, (torch.nan, torch.inf, -torch.inf)[attempt])
    return result


RULES: Final = (
    Rule(
        "accumulation-order",
        _matches,
        _in_another_order,
        "partial sums overflow in one order of the terms and not in another: Inf, NaN and a finite sum are all legal",
        "PyTorch notes, Numerical accuracy: 'the order of the operations affects the results'; Extremal values",
        attempts=4,
    ),
)

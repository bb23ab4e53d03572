"""Sums whose partial sums leave the range of their type in one order and not in another."""

from __future__ import annotations

import math
from typing import Any, Final, NamedTuple

import torch

from mindgap.program.operators import Terms, traits
from mindgap.verdicts.floor import real_view
from mindgap.verdicts.runner import Call, tensors_in
from mindgap.verdicts.terms import LARGEST, NO_KERNEL, adds_up, finite, length, made, sizes, transformed
from mindgap.verdicts.unspecified.rule import Rule

FLOAT64_SUMS: Final = 2.0**-40
"""The relative error of a float64 sum of up to 2^12 terms: each adds at most 2^-53."""


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


def _matches(call: Call) -> bool:
    """Whether the partial sums of some element overflow in one order of its terms and not in another.

    Partial sums lie between the sum of all negative terms and that of all positive ones. Both follow from the sum and
    from the sum of |terms|, which is what the operator gives for absolute values.
    """
    transforms = traits(call.op).transforms
    if not (transforms or adds_up(call)):
        return False
    try:
        if not _may_overflow(call):
            return False
        call.note = _orders_of_transform(call) if transforms else _orders_of_sum(call)
    except NO_KERNEL:
        return False
    return bool(call.note.differ.any())


def _may_overflow(call: Call) -> bool:
    """A bound that costs one pass over the arguments: the product of their largest elements, times the terms."""
    given = [tensor.resolve_conj() for tensor in call.tensors() if tensor.numel() and tensor.dtype in LARGEST]
    most = max((tensor.numel() for tensor in call.tensors()), default=0)
    size = math.log2(2 + 2 * (most if traits(call.op).terms in (Terms.ONE, Terms.COUNTED) else length(call)))
    for tensor in given:
        low, high = (float(edge) for edge in torch.aminmax(real_view(tensor)))
        if not (math.isfinite(low) and math.isfinite(high)):
            return True
        size += max(0.0, math.log2(max(-low, high, 1.0)))
    return bool(given) and size > min(math.log2(LARGEST[tensor.dtype]) for tensor in given)


def _orders_of_sum(call: Call) -> _Orders:
    value = real_view(made(call))
    size = sizes(call)
    if value.shape == size.shape:
        total = made(call, finite)
    else:  # of complex terms either part may have any of them
        size, total = size.unsqueeze(-1).expand(value.shape), torch.zeros_like(value)
    largest = LARGEST[_dtype(call)]
    terms = length(call) if traits(call.op).averages else 1
    unknown = size.isinf()  # not even float64 can tell the two sums apart
    unsure = size * FLOAT64_SUMS  # of terms of one sign, next to much larger ones of the other, nothing is left
    above = (terms * ((size + total) / 2 + unsure) > largest) | unknown
    below = (terms * ((size - total) / 2 + unsure) > largest) | unknown
    # An infinite term stays infinite in every order, unless it meets the other infinity.
    endless = value.isinf() & ~unknown
    clashes = torch.where(endless, torch.where(value > 0, below, above), above & below)
    certain = (value.isnan() & ~unknown) | (value.abs() > largest) & ~(above & below) & ~endless
    return _Orders(above & ~endless & ~certain, below & ~endless & ~certain, clashes & ~certain, value)


def _orders_of_transform(call: Call) -> _Orders:
    """A Fourier transform adds up everything along its dimensions, times factors of size 1 and any sign.

    To a real result of complex numbers each of them counts twice, as itself and as its mirror image.
    """
    result = made(call)
    value = real_view(result)
    terms = call.args[0].to(torch.complex128).abs() * (1 if result.is_complex() else 2)
    size = terms.sum(transformed(call), keepdim=True)
    beyond = size > LARGEST[_dtype(call)]
    if value.dim() > beyond.dim():
        beyond = beyond.unsqueeze(-1)
    beyond = beyond.expand(value.shape)
    return _Orders(beyond, beyond, beyond, value)


def _dtype(call: Call) -> torch.dtype:
    """The precision of the result."""
    asked = call.kwargs.get("dtype")
    given = [tensor.dtype for tensor in call.tensors() if tensor.dtype in LARGEST]
    return asked if asked in LARGEST else given[0]


def _in_another_order(call: Call, result: Any, attempt: int, generator: torch.Generator) -> Any:
    """NaN, either infinity, or the sum itself, wherever some order gives it; then a different one for each element, as
    nobody adds up all of them in one order: what compares elements with each other may come out in any way."""
    orders: _Orders = call.note
    target = real_view(call.mutated()[0] if call.inplace else tensors_in(result)[0])
    legal: tuple[tuple[torch.Tensor, Any], ...] = (
        (orders.clashes, torch.nan), (orders.rises, torch.inf), (orders.falls, -torch.inf),
        (orders.differ, orders.value.to(target.dtype)),
    )  # fmt: skip
    drawn = torch.randint(0, len(legal), target.shape, generator=generator)
    for number, (where, value) in enumerate(legal):
        chosen = where & (drawn == number) if attempt >= len(legal) else where if attempt == number else None
        if chosen is not None:
            target.copy_(torch.where(chosen, value, target))
    return result


def _vanishes(call: Call) -> bool:
    """Whether the terms of some element cancel so far that its sum is less than one rounding error of theirs: then it
    comes out as exactly 0 in one order and not in another, and a division by it as NaN, infinite or finite."""
    if not adds_up(call) or not any(tensor.dtype in LARGEST for tensor in call.tensors()):
        return False  # whole numbers cancel alike in any order
    try:
        value, size = real_view(made(call)), sizes(call)
    except NO_KERNEL:
        return False
    if value.shape != size.shape:
        size = size.unsqueeze(-1).expand(value.shape)
    call.note = value, (value != 0) & (value.abs() <= size * torch.finfo(_dtype(call)).eps)
    return bool(call.note[1].any())


def _as_nothing(call: Call, result: Any, attempt: int, generator: torch.Generator) -> Any:
    value, where = call.note
    target = real_view(call.mutated()[0] if call.inplace else tensors_in(result)[0])
    target.copy_(torch.where(where, value.to(target.dtype) if attempt else 0.0, target))
    return result


RULES: Final = (
    Rule(
        "accumulation-order",
        _matches,
        _in_another_order,
        "partial sums overflow in one order of the terms and not in another: Inf, NaN and a finite sum are all legal",
        "PyTorch notes, Numerical accuracy: 'the order of the operations affects the results'; Extremal values",
        attempts=6,
    ),
    Rule(
        "cancelled-sum",
        _vanishes,
        _as_nothing,
        "a sum whose terms cancel is exactly 0 in one order and not in another: a division by it may end in any way",
        "PyTorch notes, Numerical accuracy: 'the order of the operations affects the results'",
        attempts=2,
        only_flips=True,
    ),
)

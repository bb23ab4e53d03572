"""What a wrong result looks like, in words: `rounds toward zero`, `computes in 32 bits`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Final

import torch

from mindgap.records.verdict import Blame
from mindgap.tracing.examine import Examination

Reading = Callable[[torch.Tensor, torch.Tensor], str]
"""From the platform's result and the right one to a remark, or nothing."""


def read(found: Examination) -> str:
    """The first remark that fits all elements of the output that is wrong.

    Where float64 says that eager is the one that is wrong, it is eager that the remark is about; where both are,
    nothing here is right, and nothing is said.
    """
    if found.verdict.blame is Blame.BOTH:
        return ""
    if found.verdict.blame is Blame.EAGER:
        remark = _read(replace(found, eager=found.candidate, candidate=found.eager))
        return f"torch eager {remark}" if remark else ""
    return _read(found)


def _read(found: Examination) -> str:
    given = {item.name: item.tensor for item in found.candidate.outputs}
    wrong = [name for name, item in found.comparisons.items() if item.wrong]
    for item in found.eager.outputs:
        actual = given.get(item.name)
        if item.name in wrong and actual is not None and actual.shape == item.tensor.shape:
            for reading in READINGS:
                remark = reading(actual, item.tensor)
                if remark:
                    return remark
    return ""


def _wraps(actual: torch.Tensor, right: torch.Tensor) -> str:
    if right.is_floating_point() or right.dtype in (torch.bool, torch.int8, torch.uint8):
        return ""
    for narrow in (torch.int32, torch.int16, torch.int8):
        if right.dtype.itemsize > narrow.itemsize and torch.equal(right.to(narrow).to(right.dtype), actual):
            return f"computes in {8 * narrow.itemsize} bits"
    return ""


def _saturates(actual: torch.Tensor, right: torch.Tensor) -> str:
    if right.is_floating_point() or right.dtype is torch.bool or right.dtype.is_complex:
        return ""
    limits = torch.iinfo(right.dtype)
    wrong = actual[actual != right]
    at_end = (wrong == limits.max) | (wrong == limits.min)
    return "saturates where torch wraps around" if wrong.numel() and bool(at_end.all()) else ""


def _rounds(actual: torch.Tensor, right: torch.Tensor) -> str:
    """One above a negative number: towards zero instead of down."""
    if actual.dtype != right.dtype or right.dtype is torch.bool or right.dtype.is_complex:
        return ""
    wrong = actual != right
    step = (actual - right)[wrong]
    if not step.numel() or not bool((right[wrong] < 0).all()):
        return ""
    return "rounds toward zero where torch rounds down" if bool((step == 1).all()) else ""


def _drops_nan(actual: torch.Tensor, right: torch.Tensor) -> str:
    if not (right.is_floating_point() and actual.is_floating_point()):
        return ""
    lost, made = right.isnan() & ~actual.isnan(), actual.isnan() & ~right.isnan()
    if bool(lost.any()) and not bool(made.any()):
        return "gives a number where NaN is due"
    return "gives NaN where a number is due" if bool(made.any()) and not bool(lost.any()) else ""


def _infinities(actual: torch.Tensor, right: torch.Tensor) -> str:
    if not (right.is_floating_point() and actual.is_floating_point()):
        return ""
    if bool((actual.isinf() & right.isfinite()).any()):
        return "overflows where the result can be represented"
    if bool((right.isinf() & actual.isfinite()).any()):
        return "gives a finite number where infinity is due"
    return (
        "gives infinity of the other sign" if bool((actual.isinf() & right.isinf() & (actual != right)).any()) else ""
    )


def _narrow(actual: torch.Tensor, right: torch.Tensor) -> str:
    if right.dtype not in (torch.float32, torch.float64) or actual.dtype != right.dtype:
        return ""
    for narrow in (torch.float32, torch.float16, torch.bfloat16):
        # What passed through numbers near 1 is a multiple of their eps, as small numbers of a narrow type are.
        tells = 4 * torch.finfo(right.dtype).eps / torch.finfo(narrow).eps
        coarse = bool(((actual != right) & (right.abs() >= tells)).any())
        if narrow is not right.dtype and coarse and torch.equal(right.to(narrow).to(right.dtype), actual):
            return f"is rounded to {str(narrow).removeprefix('torch.')}"
    return ""


def _sign(actual: torch.Tensor, right: torch.Tensor) -> str:
    same_type = actual.dtype == right.dtype and right.dtype not in (torch.bool, torch.uint8)
    if not same_type:
        return ""
    wrong = (actual != right) & (right == right)
    return "has the wrong sign" if bool(wrong.any()) and torch.equal(actual[wrong], -right[wrong]) else ""


def _tail(actual: torch.Tensor, right: torch.Tensor) -> str:
    wrong = (actual != right).reshape(-1).nonzero().reshape(-1)
    last = right.numel() - 1
    only_last = len(wrong) == 1 and int(wrong[0]) == last
    return f"is wrong at the last of {last + 1} elements only" if only_last and last > 1 else ""


def _factor(actual: torch.Tensor, right: torch.Tensor) -> str:
    if not (actual.is_floating_point() and right.is_floating_point()):
        return ""
    usable = right.isfinite() & actual.isfinite() & (right != 0)
    ratio = (actual[usable].double() / right[usable].double()) if bool(usable.any()) else torch.empty(0)
    if ratio.numel() < 2 or float(ratio.max() - ratio.min()) > 1e-6 * float(ratio.abs().max()):
        return ""
    return f"differs by the same factor everywhere: {float(ratio.mean()):.9g}"


NARROWER: Final = ("computes in", "is rounded to")
"""How remarks about a choice of precision begin."""

READINGS: Final[tuple[Reading, ...]] = (
    _wraps, _saturates, _rounds, _drops_nan, _infinities, _narrow, _sign, _tail, _factor,
)  # fmt: skip

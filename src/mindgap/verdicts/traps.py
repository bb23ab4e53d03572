"""Integer divisions that have no result: the processor may trap, which ends the process."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch

from mindgap.program.operators import traits


def divides(op: str) -> bool:
    """Whether an operator gives whole quotients or remainders."""
    return "integer-division" in traits(op).unspecified


def impossible(op: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> torch.Tensor | None:
    """Where an integer is divided by zero, or the smallest one by -1; None when the call divides no integers."""
    if not divides(op) or len(args) < 2:
        return None
    value, divisor = torch.as_tensor(args[0]), torch.as_tensor(args[1])
    if not is_integer(value.dtype) or not is_integer(divisor.dtype):
        return None
    if kwargs.get("rounding_mode", "floor") is None:
        return None  # a true quotient is a float
    kind = torch.result_type(args[0], args[1])
    bad = divisor == 0
    if kind.is_signed:
        bad = bad | ((divisor == -1) & (value == torch.iinfo(kind).min))
    return bad


def safe_arguments(op: str, args: list[Any], kwargs: Mapping[str, Any]) -> list[Any]:
    """The arguments with divisors that exist."""
    bad = impossible(op, args, kwargs)
    if bad is None or not bool(bad.any()):
        return args
    if not isinstance(args[1], torch.Tensor):
        return [args[0], 1, *args[2:]]
    shape = bad.shape if bad.shape != args[1].shape else args[1].shape
    divisor = args[1].expand(shape)
    return [args[0], torch.where(bad, torch.ones_like(divisor), divisor), *args[2:]]


def is_integer(dtype: torch.dtype) -> bool:
    return not dtype.is_floating_point and not dtype.is_complex and dtype is not torch.bool

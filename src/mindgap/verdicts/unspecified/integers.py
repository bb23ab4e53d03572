"""Casts to integers, shifts and integer division."""

from __future__ import annotations

from typing import Any, Final

import torch

from mindgap.verdicts.runner import Call
from mindgap.verdicts.traps import impossible, is_integer
from mindgap.verdicts.unspecified.rule import Rule


def _random(result: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    info = torch.iinfo(result.dtype)
    low, high = max(info.min, -(2**62)), min(info.max, 2**62)
    return torch.randint(low, high, result.shape, generator=generator, dtype=torch.int64).to(result.dtype)


# ---- a float that no integer can hold


def _cast(call: Call) -> tuple[torch.Tensor, torch.dtype] | None:
    """The floating source and integer target of a cast; to bool every number, NaN included, has a defined result."""
    if call.name == "copy":
        source, target = call.argument(1, "src"), call.args[0].dtype
    else:
        source = call.args[0]
        targets = [a for a in (*call.args[1:], *call.kwargs.values()) if isinstance(a, torch.dtype | torch.Tensor)]
        if not targets:
            return None
        target = targets[0] if isinstance(targets[0], torch.dtype) else targets[0].dtype
    if not isinstance(source, torch.Tensor) or not source.is_floating_point() or target.is_floating_point:
        return None
    return (source, target) if is_integer(target) else None


def _outside(source: torch.Tensor, target: torch.dtype) -> torch.Tensor:
    """Where the truncated value does not fit."""
    info = torch.iinfo(target)
    whole = source.to(torch.float64).trunc()
    return ~((whole >= float(info.min)) & (whole < float(info.max) + 1))


def _cast_matches(call: Call) -> bool:
    cast = _cast(call)
    return cast is not None and bool(_outside(*cast).any())


def _cast_scramble(call: Call, result: Any, attempt: int, generator: torch.Generator) -> Any:
    cast = _cast(call)
    if cast is None:
        return result
    source, target = cast
    where = _outside(source.to(result.device), target).expand(result.shape)
    return result.copy_(torch.where(where, _random(result, generator), result))


# ---- a shift that leaves the word


def _bad_shift(call: Call) -> torch.Tensor | None:
    value, amount = call.args[0], call.argument(1, "other")
    if not isinstance(value, torch.Tensor) or value.is_floating_point():
        return None
    amount = torch.as_tensor(amount)
    width = torch.iinfo(value.dtype).bits if value.dtype is not torch.bool else 1
    return (amount < 0) | (amount >= width)


def _shift_matches(call: Call) -> bool:
    bad = _bad_shift(call)
    return bad is not None and bool(bad.any())


def _shift_scramble(call: Call, result: Any, attempt: int, generator: torch.Generator) -> Any:
    bad = _bad_shift(call)
    if bad is None:
        return result
    return result.copy_(torch.where(bad.expand(result.shape), _random(result, generator), result))


# ---- an integer quotient that does not exist


def _bad_division(call: Call) -> torch.Tensor | None:
    return impossible(call.op, call.args, call.kwargs)


def _division_matches(call: Call) -> bool:
    bad = _bad_division(call)
    return bad is not None and bool(bad.any())


def _division_scramble(call: Call, result: Any, attempt: int, generator: torch.Generator) -> Any:
    bad = _bad_division(call)
    if bad is None:
        return result
    return result.copy_(torch.where(bad.expand(result.shape), _random(result, generator), result))


RULES: Final = (
    Rule(
        "float-to-integer",
        _cast_matches,
        _cast_scramble,
        "a NaN, an infinity or a value beyond the range has no integer; hardware saturates, wraps or returns a marker",
        "torch.Tensor.to: out-of-range conversion is undefined behaviour in C++; pytorch#180159, pytorch#156788",
    ),
    Rule(
        "shift-out-of-range",
        _shift_matches,
        _shift_scramble,
        "shifting by a negative amount or by the width of the type is undefined in C++ and differs by processor",
        "torch.bitwise_left_shift; pytorch#143566",
    ),
    Rule(
        "integer-division",
        _division_matches,
        _division_scramble,
        "an integer divided by zero, or the smallest one by -1, has no result; processors trap, wrap or return 0",
        "torch.div; pytorch#184406",
    ),
)

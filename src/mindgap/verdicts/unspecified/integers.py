"""Casts to integers, shifts and integer division."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import torch

from mindgap.verdicts.runner import Call
from mindgap.verdicts.traps import impossible, is_integer
from mindgap.verdicts.unspecified.rule import Pattern, Rule, Scramble


def _where(find: Callable[[Call], torch.Tensor | None]) -> tuple[Pattern, Scramble]:
    """How a rule matches and scrambles when only some elements are unspecified: any integer may stand there."""

    def matches(call: Call) -> bool:
        bad = find(call)
        return bad is not None and bool(bad.any())

    def scramble(call: Call, result: Any, attempt: int, generator: torch.Generator) -> Any:
        bad = find(call)
        return result if bad is None else result.copy_(torch.where(bad, _random(result, generator), result))

    return matches, scramble


def _random(result: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    info = torch.iinfo(result.dtype)
    low, high = max(info.min, -(2**62)), min(info.max, 2**62)
    return torch.randint(low, high, result.shape, generator=generator, dtype=torch.int64).to(result.dtype)


# ---- a float that no integer can hold


def _outside(call: Call) -> torch.Tensor | None:
    """Where the truncated value does not fit its integer type; to bool every number has a defined result."""
    if call.name == "copy":
        source, target = call.argument(1, "src"), call.args[0].dtype
    else:
        source = call.args[0]
        targets = [a for a in (*call.args[1:], *call.kwargs.values()) if isinstance(a, torch.dtype | torch.Tensor)]
        if not targets:
            return None
        target = targets[0] if isinstance(targets[0], torch.dtype) else targets[0].dtype
    if not isinstance(source, torch.Tensor) or not source.is_floating_point() or not is_integer(target):
        return None
    info = torch.iinfo(target)
    whole = source.to(torch.float64).trunc()
    return ~((whole >= float(info.min)) & (whole < float(info.max) + 1))


# ---- a shift that leaves the word


def _bad_shift(call: Call) -> torch.Tensor | None:
    value, amount = call.args[0], call.argument(1, "other")
    if not isinstance(value, torch.Tensor) or value.is_floating_point():
        return None
    amount = torch.as_tensor(amount)
    width = torch.iinfo(value.dtype).bits if value.dtype is not torch.bool else 1
    return (amount < 0) | (amount >= width)


RULES: Final = (
    Rule(
        "float-to-integer",
        *_where(_outside),
        "a NaN, an infinity or a value beyond the range has no integer; hardware saturates, wraps or returns a marker",
        "torch.Tensor.to: out-of-range conversion is undefined behaviour in C++; pytorch#180159, pytorch#156788",
    ),
    Rule(
        "shift-out-of-range",
        *_where(_bad_shift),
        "shifting by a negative amount or by the width of the type is undefined in C++ and differs by processor",
        "torch.bitwise_left_shift; pytorch#143566",
    ),
    Rule(
        "integer-division",
        *_where(lambda call: impossible(call.op, call.args, call.kwargs)),
        "an integer divided by zero, or the smallest one by -1, has no result; processors trap, wrap or return 0",
        "torch.div; pytorch#184406",
    ),
)

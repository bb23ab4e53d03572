"""Random streams and uninitialised memory."""

from __future__ import annotations

import math
from typing import Any, Final

import torch

from mindgap.program import ops
from mindgap.verdicts.runner import Call, tensors_in
from mindgap.verdicts.unspecified.rule import Rule
from mindgap.verdicts.unspecified.special import always, taint, taint_all

_PROBABILITIES: Final = ("dropout_p", "dropout")
_SWITCHES: Final = ("train", "training")


def may_draw(op: str) -> bool:
    """Whether calls of an operator can take numbers from the random stream."""
    return _is_random(ops.resolve(op))


def _is_random(function: object) -> bool:
    return isinstance(function, torch._ops.OpOverload) and torch.Tag.nondeterministic_seeded in function.tags


def draws(call: Call) -> bool:
    """Whether the call takes numbers from the random stream."""
    function: Any = call.function
    if not _is_random(function):
        return False
    for position, argument in enumerate(function._schema.arguments):
        value = call.argument(position, argument.name, argument.default_value)
        if (argument.name in _PROBABILITIES and value == 0) or (argument.name in _SWITCHES and value is False):
            return False
    return True


def _other_stream(call: Call, result: Any, attempt: int, generator: torch.Generator) -> Any:
    """NaN first, which shows everything that chance reaches; then other draws."""
    tensors = tensors_in(result)
    if attempt == 0 and any(tensor.is_floating_point() for tensor in tensors):
        for tensor in tensors:
            if tensor.is_floating_point() and tensor.numel():
                tensor.fill_(float("nan"))
        return result
    torch.default_generator.manual_seed(int(torch.randint(0, 2**31, (), generator=generator)))
    return call.make()


def _grows(call: Call) -> bool:
    """Whether resize_ makes room that was never written."""
    call.note = call.args[0].numel()
    return bool(math.prod(call.argument(1, "size", ())) > call.note)


def _fill_rest(call: Call, result: Any, attempt: int, generator: torch.Generator) -> Any:
    taint(result.view(-1)[call.note :], attempt, generator)
    return result


RULES: Final = (
    Rule(
        "random-stream",
        draws,
        _other_stream,
        "the same seed gives other numbers on another platform",
        "torch notes on randomness: 'results may not be reproducible between CPU and GPU executions'; "
        "torch._inductor.config.fallback_random",
    ),
    Rule(
        "uninitialised-memory",
        always,
        taint_all,
        "the tensor was never written: it holds whatever was in memory",
        "torch.empty: 'a tensor filled with uninitialized data'",
        attempts=2,
    ),
    Rule(
        "resized-memory",
        _grows,
        _fill_rest,
        "the elements that resize_ adds were never written",
        "torch.Tensor.resize_: 'any new memory is uninitialized'",
        attempts=2,
    ),
)

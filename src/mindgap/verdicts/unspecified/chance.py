"""Random streams."""

from __future__ import annotations

import math
from typing import Any, Final

import torch

from mindgap.program import ops
from mindgap.verdicts.runner import Call, tensors_in
from mindgap.verdicts.unspecified.rule import Rule

RANDOM_STREAM: Final = "random-stream"

_PROBABILITIES: Final = ("dropout_p", "dropout", "p")
_SWITCHES: Final = ("train", "training")

_UNREAL: Final = 3
"""Attempts with NaN and with the least and the greatest value everywhere."""


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
    for name, value in _named_arguments(call).items():
        if (name in _PROBABILITIES and value == 0) or (name in _SWITCHES and value is False):
            return False
    return True


def _other_stream(call: Call, result: Any, attempt: int, generator: torch.Generator) -> Any:
    """NaN first, which shows whatever is computed from chance; then the ends of its range, one of which shows whatever
    chance decides, however seldom; then other draws."""
    tensors = [tensor for tensor in tensors_in(result) if tensor.numel()]
    if attempt < _UNREAL:
        for tensor in tensors:
            if attempt:
                _fill_with_end(call, tensor, greatest=attempt == 2)
            elif tensor.is_floating_point() or tensor.is_complex():
                tensor.fill_(float("nan"))
        return result
    torch.default_generator.manual_seed(int(torch.randint(0, 2**31, (), generator=generator)))
    return call.make()


def _fill_with_end(call: Call, drawn: torch.Tensor, greatest: bool) -> None:
    """The least or the greatest value that the call can give, everywhere; a permutation in order or reversed."""
    if call.name == "randperm":
        drawn.copy_(drawn.sort(descending=greatest).values)
        return
    low, high = _range(call, drawn)
    drawn.fill_(high if greatest else low)


def _range(call: Call, drawn: torch.Tensor) -> tuple[Any, Any]:
    """Both ends of what the call can give."""
    if drawn.dtype is torch.bool:
        return False, True
    if call.name == "multinomial":
        return 0, call.args[0].shape[-1] - 1
    given = _named_arguments(call)
    low, high = (next((given[name] for name in names if given.get(name) is not None), None) for names in _ENDS)
    if not (drawn.is_floating_point() or drawn.is_complex()):
        return (low or 0), (int(drawn.max()) if high is None else high - 1)
    if call.name in ("rand", "rand_like", "uniform"):
        low, high = (0.0 if low is None else low), (1.0 if high is None else high)
        return low, torch.tensor(high, dtype=drawn.dtype).nextafter(torch.tensor(low, dtype=drawn.dtype)).item()
    return (0.0, 1.0) if call.name == "bernoulli" else (-math.inf, math.inf)


_ENDS: Final = (("low", "from"), ("high", "to"))


def _named_arguments(call: Call) -> dict[str, Any]:
    function: Any = call.function
    return {
        argument.name: call.argument(position, argument.name, argument.default_value)
        for position, argument in enumerate(function._schema.arguments)
    }


RULES: Final = (
    Rule(
        RANDOM_STREAM,
        draws,
        _other_stream,
        "the same seed gives other numbers on another platform",
        "torch notes on randomness: 'results may not be reproducible between CPU and GPU executions'; "
        "torch._inductor.config.fallback_random",
        attempts=_UNREAL + 3,
        unreal=_UNREAL,
    ),
)

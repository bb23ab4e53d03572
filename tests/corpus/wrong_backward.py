"""A platform whose training steps are wrong at one marked node, in ways that backward passes are known to be wrong."""

from __future__ import annotations

from typing import Any, ClassVar, Final

import torch

from mindgap.bench.faults import Call, Fault, Planted
from mindgap.records.platform import PlatformSpec


def momentum_turned(function: Call, args: Any, kwargs: Any) -> Any:
    """Running statistics keep the share that they should take."""
    return function(*args[:6], 1 - args[6], *args[7:], **kwargs)


def weight_left_out(function: Call, args: Any, kwargs: Any) -> Any:
    """The gradient of a normalised input lacks the factor of the weight."""
    return function(*args[:5], torch.ones_like(args[5]), *args[6:], **kwargs)


def mean_for_sum(function: Call, args: Any, kwargs: Any) -> Any:
    """The gradient of what was broadcast is the mean of its parts, not their sum."""
    total = function(*args, **kwargs)
    return total / (args[0].numel() / total.numel())


def saved_overwritten(function: Call, args: Any, kwargs: Any) -> Any:
    """The result takes the memory of an operand, which the backward pass still needs."""
    return args[0].copy_(function(*args, **kwargs))


class WrongBackward(Planted):
    """Eager, but for the marked node."""

    runtime = "wrong-backward"
    summary = "eager with one fault in its training step"
    faults: ClassVar = {
        spoil.__name__: Fault(spoil, ())
        for spoil in (momentum_turned, weight_left_out, mean_for_sum, saved_overwritten)
    }


WRONG_BACKWARD: Final = PlatformSpec(name="wrong-backward", adapter=f"{__name__}:WrongBackward")

"""What a program should give: every step in float64, or every step rounded to its own precision."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import torch

from mindgap.program.graph import leaves, map_leaves
from mindgap.program.operators import Rounding, traits
from mindgap.program.precision import WIDER, widen
from mindgap.verdicts.noise import Noise, accumulates
from mindgap.verdicts.runner import Call, default_dtype


@dataclass
class Wide:
    """Makes calls of a subject that runs in float64.

    Random operators repeat what they drew in the subject's own precision, because the same seed gives other
    numbers in float64.
    """

    drawn: dict[int, list[torch.Tensor]] = field(default_factory=dict)
    wants: ClassVar = staticmethod(lambda node: False)

    @property
    def keys(self) -> frozenset[int]:
        return frozenset(self.drawn)

    def __call__(self, call: Call) -> Any:
        if call.key in self.drawn:
            return replay(call, self.drawn[call.key])
        return call.make()


@dataclass
class Stepwise:
    """Makes every call in float64 from arguments in their own precision, and rounds its result once.

    A platform may keep intermediate values wide (`Wide`) or round each of them (this); both are right. On the
    way it learns which results are exact, so that no noise is due there.
    """

    drawn: dict[int, list[torch.Tensor]] = field(default_factory=dict)
    exact: dict[int, list[torch.Tensor | None]] = field(default_factory=dict)

    def __call__(self, call: Call) -> Any:
        if call.key in self.drawn:
            return replay(call, self.drawn[call.key])
        if traits(call.op).rounding is Rounding.EXACT and not accumulates(call):
            return call.make()
        wide = _widened(call)
        try:
            with default_dtype(torch.float64):
                value = wide.make()
        except (RuntimeError, TypeError, ValueError, NotImplementedError):
            return call.make()  # no such kernel in float64: its own precision is all there is
        if call.inplace:
            return self._write_back(call, wide)
        own = call.make()
        pairs = list(zip(_tensors(own), _tensors(value)))
        if any(first.shape != second.shape for first, second in pairs):
            return own
        self.exact[call.key] = [self._round_into(first, second) for first, second in pairs]
        return own

    def _write_back(self, call: Call, wide: Call) -> Any:
        masks = [self._round_into(own, value) for own, value in zip(call.mutated(), wide.mutated())]
        self.exact[call.key] = list(masks)
        written = call.mutated()
        return written[0] if len(written) == 1 else tuple(written)

    def _round_into(self, own: torch.Tensor, value: torch.Tensor) -> torch.Tensor | None:
        """Store the rounded value; returns where rounding changed nothing."""
        if not (own.is_floating_point() or own.is_complex()):
            return None
        if any(step == 0 and size > 1 for size, step in zip(own.shape, own.stride())):
            return None
        own.copy_(value)
        return (own.to(value.dtype) == value) | own.isnan() | own.isinf()


@dataclass
class Careful:
    """Makes every call as a careful implementation would: in float64, a rounding away from what it reads and gives.

    What still moves an output is the problem's own condition. What moves it more is how an operator computes.
    """

    noise: Noise
    stepwise: Stepwise

    def __call__(self, call: Call) -> Any:
        if call.key in self.stepwise.drawn:
            return self.stepwise(call)
        return self.noise.careful(call, self.stepwise)


def replay(call: Call, drawn: list[torch.Tensor]) -> Any:
    """What a random call gave before, in the precision that the call has now."""
    if call.inplace:
        for target, values in zip(call.mutated(), drawn):
            target.copy_(values)
        written = call.mutated()
        return written[0] if len(written) == 1 else tuple(written)
    wide = any(tensor.dtype in (torch.float64, torch.complex128) for tensor in call.tensors())
    wide = wide or torch.get_default_dtype() is torch.float64
    again = [widen(tensor) if wide else tensor.clone() for tensor in drawn]
    return again[0] if len(again) == 1 else tuple(again)


def _widened(call: Call) -> Call:
    """The call on float64 copies of everything, tensors that it writes to included."""
    written = call.mutated()

    def change(leaf: Any) -> Any:
        if isinstance(leaf, torch.dtype):
            return WIDER.get(leaf, leaf)
        if not isinstance(leaf, torch.Tensor):
            return leaf
        wide = widen(leaf)
        return leaf.clone() if wide is leaf and any(leaf is tensor for tensor in written) else wide

    args = [map_leaves(argument, change) for argument in call.args]
    return replace(call, args=args, kwargs={key: map_leaves(a, change) for key, a in call.kwargs.items()})


def _tensors(value: Any) -> list[torch.Tensor]:
    return [leaf for _, leaf in leaves(value) if isinstance(leaf, torch.Tensor)]

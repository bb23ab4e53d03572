"""What a program should give: every step in float64, or every step rounded to its own precision."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar

import torch

from mindgap.program.operators import Rounding, traits
from mindgap.program.precision import widen
from mindgap.program.state import repeats
from mindgap.verdicts.noise import Noise
from mindgap.verdicts.runner import Call, default_dtype, tensors_in, widened
from mindgap.verdicts.terms import accumulates, adds_up, alone, cancels, exactly_added, on_copies


@dataclass
class Wide:
    """Makes the calls of a model that runs in float64.

    Random operators repeat what they drew in the model's own precision, because the same seed gives other
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
        wide = widened(call, copies=True)
        try:
            with default_dtype(torch.float64):
                value = wide.make()
        except (RuntimeError, TypeError, ValueError, NotImplementedError):
            return call.make()  # no such kernel in float64: its own precision is all there is
        adds = adds_up(call) or cancels(call)
        before = on_copies(call) if call.inplace and adds else call
        own = _one_or_all(call.mutated()) if call.inplace else call.make()
        pairs = list(zip(tensors_in(own), tensors_in(_one_or_all(wide.mutated()) if call.inplace else value)))
        if any(first.shape != second.shape for first, second in pairs):
            return own
        exact = [self._round_into(first, second) for first, second in pairs]
        if adds and exact[0] is not None and bool(exact[0].any()):
            everywhere = exactly_added(before)  # a sum may be exact by chance, with partial sums that are not
            exact[0] = None if everywhere is None else exact[0] & everywhere
        if alone(call):  # what float64 leaves of x - x is a rounding error of few bits, or nothing
            exact[0] = None
        self.exact[call.key] = exact
        return own

    def _round_into(self, own: torch.Tensor, value: torch.Tensor) -> torch.Tensor | None:
        """Store the rounded value; returns where rounding changed nothing.

        A value in float64 was rounded already: by chance that leaves a number of float32 once in 2^29 times.
        """
        if not (own.is_floating_point() or own.is_complex()) or repeats(own):
            return None
        own.copy_(value)
        narrow = own.to(torch.complex64 if own.is_complex() else torch.float32) if own.dtype == value.dtype else own
        return (narrow.to(value.dtype) == value) | own.isnan() | own.isinf()


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
        return _one_or_all(call.mutated())
    wide = any(tensor.dtype in (torch.float64, torch.complex128) for tensor in call.tensors())
    wide = wide or torch.get_default_dtype() is torch.float64
    return _one_or_all([widen(tensor) if wide else tensor.clone() for tensor in drawn])


def _one_or_all(tensors: list[torch.Tensor]) -> Any:
    return tensors[0] if len(tensors) == 1 else tuple(tensors)

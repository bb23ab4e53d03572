"""How far single elements are from what they should be, in units of what rounding explains."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import torch

from mindgap.verdicts.floor import real_view, unit_share
from mindgap.verdicts.survey import Surveyed

THRESHOLD: Final = 12.0
"""Errors of more than this many floors are defects: 12 real models in three precisions stay below
2.4, controls below 7, real defects begin at 1e5, a fault of 16 floors must be found (docs/decisions/0003)."""

ILL: Final = 1 / THRESHOLD
"""Where THRESHOLD floors are as large as the output, in norm, no error can be told from rounding."""

CHUNK: Final = 1 << 22
"""Elements judged at a time: about 300 MB of temporaries, whatever the size of the output."""


@dataclass(frozen=True, slots=True)
class Expected:
    """What one run of elements should be: flat tensors of one length, complex values as pairs."""

    dtype: torch.dtype
    reference: torch.Tensor | None
    spread: torch.Tensor | None
    stepwise: torch.Tensor | None = None
    flips: torch.Tensor | None = None

    def at(self, where: torch.Tensor) -> Expected:
        """Only these elements."""

        def take(tensor: torch.Tensor | None) -> torch.Tensor | None:
            return None if tensor is None else tensor[where]

        parts = (self.reference, self.spread, self.stepwise, self.flips)
        return Expected(self.dtype, *map(take, parts))


def expected_chunks(surveyed: Surveyed, dtype: torch.dtype) -> Iterator[Expected]:
    """What an output should be, chunk by chunk."""

    def flat(tensor: torch.Tensor | None) -> torch.Tensor | None:
        return None if tensor is None else signed(real_view(tensor).reshape(-1))

    reference, stepwise = flat(surveyed.reference), flat(surveyed.stepwise)
    spread = None if surveyed.spread is None else surveyed.spread.reshape(-1)
    flips = None if surveyed.flips is None else surveyed.flips.reshape(-1)
    if surveyed.distrust:
        reference = stepwise = None
    known = next((t for t in (reference, spread, stepwise, flips) if t is not None), None)
    length = 0 if known is None else len(known)
    for low in range(0, length, CHUNK):
        parts = (reference, spread, stepwise, flips)
        yield Expected(dtype, *(None if t is None else t[low : low + CHUNK] for t in parts))


def largest_deviation(values: torch.Tensor, surveyed: Surveyed) -> float:
    """How far an output is from what it should be, in noise floors, at its worst element."""
    flat = signed(real_view(values).reshape(-1))
    low, worst = 0, 0.0
    for expected in expected_chunks(surveyed, flat.dtype):
        piece = flat[low : low + CHUNK]
        if expected.reference is not None and len(piece):
            worst = max(worst, float(deviation(piece, expected).max()))
        low += CHUNK
    return worst


def signed(tensor: torch.Tensor) -> torch.Tensor:
    """Unsigned integers that torch barely supports, as signed ones with the same bits; others unchanged."""
    bits = {torch.uint16: torch.int16, torch.uint32: torch.int32, torch.uint64: torch.int64}.get(tensor.dtype)
    return tensor if bits is None else tensor.view(bits)


def bound(expected: Expected, near: torch.Tensor) -> torch.Tensor:
    """What rounding explains at each element: the spread, at least one unit in the last place of `near`."""
    info = torch.finfo(expected.dtype)
    unit = info.eps * unit_share(expected.dtype)
    # A denormal result may be flushed to zero, unless it is a normal number of float32, in which narrow types compute.
    flushed = info.smallest_normal <= torch.finfo(torch.float32).smallest_normal
    least = info.smallest_normal * (1.0 if flushed else info.eps)
    size = near.abs().clamp_(max=info.max).mul_(unit).clamp_(min=least)
    torch.nan_to_num_(size, least)
    return size if expected.spread is None else torch.maximum(size, expected.spread.to(torch.float64))


def deviation(values: torch.Tensor, expected: Expected) -> torch.Tensor:
    """Distance of each element from the nearer of the two right answers, as a multiple of the bound.

    Infinity where a NaN or an infinity stands in place of something else; an overflow counts as a value just
    beyond the largest number, unless that number itself is due: where something saturates.
    """
    if not expected.dtype.is_floating_point:
        return _discrete(values, expected)
    found = torch.full(values.shape, torch.inf, dtype=torch.float64)
    wide = values.to(torch.float64)
    for answer in (expected.reference, expected.stepwise):
        if answer is not None:
            torch.minimum(found, _distance(wide, answer.to(torch.float64), expected), out=found)
    if expected.reference is not None:
        found[_infinite_beyond(wide, expected.reference, expected.dtype)] = torch.inf
    if expected.flips is not None:
        found[expected.flips] = 0.0
    return found


def apart(first: torch.Tensor, second: torch.Tensor, expected: Expected) -> torch.Tensor:
    """Distance between two platforms as a multiple of the bound."""
    if not expected.dtype.is_floating_point:
        return _discrete(first, Expected(expected.dtype, second, expected.spread))
    one, other = first.to(torch.float64), second.to(torch.float64)
    found = _distance(one, other, expected)
    right = expected.reference
    strange = [
        _infinite_beyond(values, right if right is not None else due, expected.dtype)
        for values, due in ((one, other), (other, one))
    ]
    found[strange[0] != strange[1]] = torch.inf
    return found


def _infinite_beyond(values: torch.Tensor, due: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """Where an infinity stands in place of exactly the largest number of a type: nothing rounds to that in float64, so
    it is meant."""
    size = due.to(torch.float64).abs()
    return values.isinf() & ((size == torch.finfo(dtype).max) | (size == torch.finfo(torch.float64).max))


def _distance(values: torch.Tensor, answer: torch.Tensor, expected: Expected) -> torch.Tensor:
    largest = torch.finfo(expected.dtype).max
    unit = bound(expected, answer)
    overflowed = answer.isinf()
    clipped = answer.clamp(-largest, largest)
    distance = (values.clamp(-largest, largest) - clipped).abs_().div_(unit)
    distance[values.isinf() & (values == answer)] = 0.0
    # Inf is right where the answer is Inf, or so near the largest number that rounding reaches it.
    distance[overflowed & (values != answer)] = torch.inf
    distance[values.isnan() | answer.isnan()] = torch.inf
    distance[values.isnan() & answer.isnan()] = 0.0
    return distance


def _discrete(values: torch.Tensor, expected: Expected) -> torch.Tensor:
    """Integers and booleans are right or wrong, but for those that rounding moves."""
    found = torch.full(values.shape, torch.inf, dtype=torch.float64)
    for answer in (expected.reference, expected.stepwise):
        if answer is None:
            continue
        found[values == answer] = 0.0
        if expected.spread is not None:
            moved = (values.to(torch.float64) - answer.to(torch.float64)).abs_()
            near = (expected.spread > 0) & (moved <= 2 * expected.spread)
            found[near & (found > 0)] = 1.0
    return found

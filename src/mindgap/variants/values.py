"""What is known of a value without running the program: shape, dtype, layout, and roughly how large it is.

Values are interned, so that rules look them up by identity, and rough, so that few of them exist: bounds of floating
values are rounded to a coarse grid, those of integers are exact as long as they could be an index.
"""

from __future__ import annotations

import bisect
import math
from itertools import pairwise
from typing import Any, Final, NamedTuple

import torch

from mindgap.program import generator
from mindgap.records.tensors import DTYPE_NAMES, DTYPES, TensorMeta

_GRID: Final = (1e-30, 1e-4, 0.03, 2.0, 100.0, 6e4, 1e9, 1e18, 1e30, 3.4e38)
"""Magnitudes that are told apart; rounded to the nearest, so that a sum of two of a class stays in it.

Coarse where nothing happens: most activations lie below 14, the middle of 2 and 100, and are of one class.
"""
_MIDDLES: Final = tuple(math.sqrt(a) * math.sqrt(b) for a, b in pairwise(_GRID))
_EXACT_INT: Final = 4096
_NOISE_SIZE: Final = 1 << 17
_MOST_SAMPLED: Final = 1 << 23
"""Elements of all samples that are kept: 32 MB of float32."""


class Range(NamedTuple):
    """Bounds of the finite elements, and how many elements are not finite."""

    low: float
    high: float
    poison: int = 0
    """0 every element is finite, 1 some are not, 2 most are not, 3 none is."""
    kind: str = ""
    """What is not finite: `nan`, `inf`, `-inf`, or `both` infinities."""


UNIT: Final = Range(-1.0, 1.0)
MOSTLY: Final = 2


class Value:
    """A tensor as far as it is known; one object for each combination, compared by identity."""

    __slots__ = ("_blank", "dtype", "meta", "numel", "range")

    def __init__(self, meta: TensorMeta, span: Range) -> None:
        self.meta = meta
        self.range = span
        self.dtype = DTYPES[meta.dtype]
        self.numel = math.prod(meta.shape)
        self._blank: Value | None = None

    @property
    def blank(self) -> Value:
        """The same without what is known of its numbers."""
        if self._blank is None:
            self._blank = value(self.meta, UNIT if self.is_float or self.dtype.is_complex else Range(0, 1))
        return self._blank

    @property
    def shape(self) -> tuple[int, ...]:
        return self.meta.shape

    @property
    def rank(self) -> int:
        return len(self.meta.shape)

    @property
    def is_float(self) -> bool:
        return self.dtype.is_floating_point

    def within(self, other: Value) -> bool:
        """Whether this is the other as far as it matters: nothing is larger, and nothing has become a constant."""
        mine, theirs = self.range, other.range
        return (
            self.meta == other.meta
            and mine[2:] == theirs[2:]
            and theirs.low <= mine.low <= mine.high <= theirs.high
            and (mine.low < mine.high or theirs.low == theirs.high)
        )

    def sample(self) -> torch.Tensor:
        """A real tensor that looks like this; never to be written to."""
        found = _SAMPLES.kept.get(self)
        if found is None:
            found = _make(self)
            _SAMPLES.keep(self, found)
        return found

    def sketch(self) -> torch.Tensor:
        """A tensor without storage."""
        return torch.empty_strided(self.meta.shape, self.meta.stride, dtype=self.dtype, device="meta")

    def __repr__(self) -> str:
        return f"{self.meta}[{self.range.low:g}, {self.range.high:g}]"


class _Samples:
    """Samples that were made; all are forgotten when they become too many."""

    def __init__(self) -> None:
        self.kept: dict[Value, torch.Tensor] = {}
        self._elements = 0

    def keep(self, item: Value, tensor: torch.Tensor) -> None:
        if self._elements + tensor.numel() > _MOST_SAMPLED:
            self.kept.clear()
            self._elements = 0
        if tensor.numel() < _MOST_SAMPLED >> 4:
            self.kept[item] = tensor
            self._elements += tensor.numel() + 32  # what an object costs beside its elements


_SAMPLES: Final = _Samples()
_INTERNED: dict[tuple[Any, ...], Value] = {}
_MOST_INTERNED: Final = 100_000


def value(meta: TensorMeta, span: Range) -> Value:
    """The one value of this meta and range; bounds are rounded to the grid."""
    rounded = _rounded(span)
    key = (meta.shape, meta.dtype, meta.stride, rounded)
    found = _INTERNED.get(key)
    if found is None:
        if len(_INTERNED) >= _MOST_INTERNED:  # values in use stay alive; a second object only costs a look-up
            _INTERNED.clear()
        found = _INTERNED[key] = Value(meta, rounded)
    return found


def of_tensor(tensor: torch.Tensor) -> Value:
    """What is known after looking at a real tensor."""
    name = DTYPE_NAMES.get(tensor.dtype)
    if name is None or tensor.layout is not torch.strided or tensor.is_quantized:
        raise TypeError(f"a program cannot hold a {tensor.dtype} tensor in layout {tensor.layout}")
    return value(TensorMeta(tuple(tensor.shape), name, tuple(tensor.stride())), range_of(tensor))


def range_of(tensor: torch.Tensor) -> Range:
    """Bounds of a tensor's finite elements and how many are not finite."""
    if not tensor.numel():
        return Range(0, 0)
    if tensor.dtype is torch.bool:
        return Range(0, 1)
    if tensor.is_complex():
        tensor = torch.view_as_real(tensor.resolve_conj().resolve_neg())
    if not tensor.is_floating_point():
        if tensor.dtype in (torch.uint16, torch.uint32, torch.uint64):
            tensor = tensor.to(torch.int64)
        low, high = torch.aminmax(tensor)
        return Range(int(low), int(high))
    if tensor.element_size() == 1:
        tensor = tensor.float()
    low, high = torch.aminmax(tensor)
    a, b = float(low), float(high)
    if math.isfinite(a) and math.isfinite(b):
        return Range(a, b)
    finite = torch.isfinite(tensor)
    count, total = int(finite.sum()), tensor.numel()
    kind = "nan" if bool(torch.isnan(tensor).any()) else _infinity(a, b)
    if not count:
        return Range(0.0, 0.0, 3, kind)
    low, high = torch.aminmax(tensor[finite])
    return Range(float(low), float(high), 2 if 2 * count < total else 1, kind)


def contiguous_stride(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Strides of a dense tensor, as torch computes them."""
    stride, step = [], 1
    for size in reversed(shape):
        stride.append(step)
        step *= max(size, 1)
    return tuple(reversed(stride))


def _infinity(low: float, high: float) -> str:
    below, above = low == -math.inf, high == math.inf
    return "both" if below and above else "-inf" if below else "inf"


def _rounded(span: Range) -> Range:
    if isinstance(span.low, int) and isinstance(span.high, int):
        return Range(_rounded_int(span.low), _rounded_int(span.high))
    return Range(_nearest(span.low), _nearest(span.high), span.poison, span.kind)


def _nearest(number: float) -> float:
    size = abs(number)
    if size < 1e-38:
        return 0.0
    return math.copysign(_GRID[bisect.bisect(_MIDDLES, size)], number)


def _rounded_int(number: int) -> int:
    if abs(number) <= _EXACT_INT:
        return number
    power = 1 << (abs(number).bit_length() | 1)  # outwards: an index stays in its bounds
    return int(math.copysign(1, number)) * min(power, 2**63 - 1)


def _noise() -> torch.Tensor:
    """Numbers between 0 and 1 that every process has alike."""
    global _NOISE
    if _NOISE is None:
        _NOISE = torch.from_numpy(generator.uniform(0, "variants.values", _NOISE_SIZE, 0.0, 1.0))
    return _NOISE


_NOISE: torch.Tensor | None = None


def _make(item: Value) -> torch.Tensor:
    room = 1 + sum((size - 1) * step for size, step in zip(item.meta.shape, item.meta.stride)) if item.numel else 0
    noise = _noise()
    offset = (room * 31 + len(item.meta.shape) * 977) % 4096
    while len(noise) < room + offset:
        noise = torch.cat([noise, noise])
    noise = noise[offset : offset + room]
    return _filled(item, noise).as_strided(item.meta.shape, item.meta.stride)


def _filled(item: Value, noise: torch.Tensor) -> torch.Tensor:
    dtype, (low, high, poison, kind) = item.dtype, item.range
    if dtype is torch.bool:
        return noise < 0.5
    if not (dtype.is_floating_point or dtype.is_complex):
        return _whole(noise, int(low), int(high), dtype)
    wide = dtype is not torch.float32 or high - low > 1e30
    numbers = (noise.double() if wide else noise) * (high - low)
    numbers += low
    if high - low > 1e3 and low <= 0.5:  # a mask of huge numbers is not huge everywhere
        numbers[::2] = (noise[::2] * 2 - 1).clamp(low, high).to(numbers.dtype)
    if low == 0.0 and high > 0.0 and len(numbers):
        numbers[0] = 0.0  # a bound of exactly zero is reached
    if wide:
        limit = 3.4e38 if dtype.is_complex else torch.finfo(dtype).max
        numbers.clamp_(-limit, limit)
    if poison:
        bad = {"nan": math.nan, "-inf": -math.inf}.get(kind, math.inf)
        numbers[(noise * 7919.0) % 1.0 < (0.0, 0.25, 0.75, 2.0)[poison]] = bad
    return numbers.to(dtype)


def _whole(noise: torch.Tensor, low: int, high: int, dtype: torch.dtype) -> torch.Tensor:
    limits = torch.iinfo(dtype)
    low, high = max(low, limits.min), min(high, limits.max)
    numbers = low + (noise.double() * (high - low + 1)).floor()
    numbers.clamp_(max(low, -(2.0**62)), min(high, 2.0**62))
    whole = numbers.to(torch.int64)
    if len(whole):
        whole[0], whole[-1] = high if high < 2**63 else 2**63 - 1, low  # both bounds are reached
    return whole.to(dtype)

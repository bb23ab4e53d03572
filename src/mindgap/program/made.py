"""Tensors that are made again instead of stored: from a seed, or from a few bytes."""

from __future__ import annotations

import math
import zlib
from dataclasses import dataclass
from typing import Final, TypeAlias

import numpy as np
import torch

from mindgap.errors import CorruptProgram
from mindgap.program import generator
from mindgap.reading.files import refusing
from mindgap.reading.metas import bytes_of
from mindgap.records.tensors import DTYPES, TensorMeta, byte_view, same_bits, with_stride

HELD_BYTES: Final = 16 << 10
"""A tensor travels inside a program up to this size, compressed: position tables, masks, token ids."""
_MOST_HELD: Final = 4 << 20  # before compression


@dataclass(frozen=True, slots=True)
class Made:
    """Float32 numbers `generator.uniform(seed, stream, count, low, high)`, cast to the dtype."""

    seed: int
    stream: str
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Held:
    """The values themselves, in order, as bytes."""

    values: bytes


@dataclass(frozen=True, slots=True)
class Whole:
    """Whole numbers from `low` to `high - 1`, `generator.integers(seed, stream, count, low, high)`, in any dtype.

    Indices and masks, and floating numbers of which many are equal.
    """

    seed: int
    stream: str
    low: int
    high: int


@dataclass(frozen=True, slots=True)
class Planted:
    """Another recipe with special values at about one in `every` positions, and at one at least.

    Position `i` is replaced when word `i` of the stream `(seed, "planted")` is a multiple of `every`, by the value
    that its upper half chooses.
    """

    ground: Made | Held | Whole
    seed: int
    values: tuple[float | int, ...]
    every: int


Recipe: TypeAlias = "Made | Held | Whole | Planted"
"""How to make a tensor whose shape, dtype and strides are known."""


def recreate(recipe: Recipe, meta: TensorMeta) -> torch.Tensor:
    """The tensor, in its layout; raises CorruptProgram when the recipe cannot be one of such a tensor."""
    bytes_of(meta)
    with refusing(f"a {meta} cannot be made", kind=CorruptProgram):
        tensor = _values(recipe, meta).reshape(meta.shape)
        return tensor if tuple(tensor.stride()) == meta.stride else with_stride(tensor, meta.stride)


def _values(recipe: Recipe, meta: TensorMeta) -> torch.Tensor:
    """The elements in order."""
    dtype, count = DTYPES[meta.dtype], math.prod(meta.shape)
    if isinstance(recipe, Held):
        if len(recipe.values) != count * dtype.itemsize:
            raise CorruptProgram(f"{len(recipe.values)} bytes do not make a {meta}")
        return torch.frombuffer(bytearray(recipe.values), dtype=dtype) if count else torch.empty(0, dtype=dtype)
    if isinstance(recipe, Planted):
        return _plant(recipe, _values(recipe.ground, meta), meta)
    if isinstance(recipe, Whole):
        whole = generator.integers(recipe.seed, recipe.stream, count, recipe.low, recipe.high)
        return torch.from_numpy(whole).to(dtype)
    if not dtype.is_floating_point:
        raise CorruptProgram(f"numbers from a seed are floating, not a {meta}")
    made = generator.uniform(recipe.seed, recipe.stream, count, recipe.low, recipe.high)
    return torch.from_numpy(made).to(dtype)


def _plant(recipe: Planted, ground: torch.Tensor, meta: TensorMeta) -> torch.Tensor:
    try:
        special = torch.tensor(recipe.values, dtype=ground.dtype)
    except (RuntimeError, TypeError, ValueError, OverflowError) as error:
        raise CorruptProgram(f"a {meta} cannot hold the values planted in it", cause=str(error)) from error
    if not len(special) or recipe.every < 1 or not len(ground):
        return ground
    words = generator.words(recipe.seed, "planted", len(ground))
    chosen = words % np.uint64(recipe.every) == 0
    chosen[int(words[0] >> np.uint64(8)) % len(ground)] = True
    which = (words >> np.uint64(32)).astype(np.int64) % len(special)
    return torch.where(torch.from_numpy(chosen), special[torch.from_numpy(which)], ground)


def makes(recipe: Recipe, tensor: torch.Tensor) -> bool:
    """Whether the recipe gives exactly the bits of a tensor."""
    return tensor.is_floating_point() and same_bits(recreate(recipe, TensorMeta.of(tensor)), tensor)


def held(tensor: torch.Tensor, limit_bytes: int = HELD_BYTES) -> Held | None:
    """The tensor's values, when they are few or compress well."""
    if tensor.numel() * tensor.element_size() > _MOST_HELD:
        return None
    values = byte_view(tensor).numpy().tobytes()
    small = len(values) <= limit_bytes or len(zlib.compress(values, 1)) <= limit_bytes
    return Held(values) if small else None

"""Tensors that are made again instead of stored: from a seed, or from a few bytes."""

from __future__ import annotations

import math
import zlib
from dataclasses import dataclass
from typing import Final, TypeAlias

import torch

from mindgap.errors import CorruptProgram
from mindgap.program import generator
from mindgap.records.tensors import DTYPES, TensorMeta, byte_view, same_bits, with_stride

MOST_BYTES: Final = 32 << 30
"""A tensor that claims to be larger is a damaged file, not a weight."""
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


Recipe: TypeAlias = "Made | Held"
"""How to make a tensor whose shape, dtype and strides are known."""


def recreate(recipe: Recipe, meta: TensorMeta) -> torch.Tensor:
    """The tensor, in its layout; raises CorruptProgram when the recipe cannot be one of such a tensor."""
    _check(meta)
    dtype, count = DTYPES[meta.dtype], math.prod(meta.shape)
    if isinstance(recipe, Held):
        if len(recipe.values) != count * dtype.itemsize:
            raise CorruptProgram(f"{len(recipe.values)} bytes are not a {meta}")
        values = torch.frombuffer(bytearray(recipe.values), dtype=dtype) if count else torch.empty(0, dtype=dtype)
    else:
        if not dtype.is_floating_point:
            raise CorruptProgram(f"numbers from a seed are floating, not a {meta}")
        made = generator.uniform(recipe.seed, recipe.stream, count, recipe.low, recipe.high)
        values = torch.from_numpy(made).to(dtype)
    tensor = values.reshape(meta.shape)
    return tensor if tuple(tensor.stride()) == meta.stride else with_stride(tensor, meta.stride)


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


def _check(meta: TensorMeta) -> None:
    sizes = (*meta.shape, *meta.stride)
    if len(meta.shape) != len(meta.stride) or any(size < 0 for size in sizes):
        raise CorruptProgram(f"there is no tensor {meta} with strides {list(meta.stride)}")
    room = 1 + sum((size - 1) * step for size, step in zip(meta.shape, meta.stride) if size)
    if max(room, math.prod(meta.shape)) * DTYPES[meta.dtype].itemsize > MOST_BYTES:
        raise CorruptProgram(f"a tensor {meta} is larger than {MOST_BYTES >> 30} GB")

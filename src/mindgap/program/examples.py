"""Inputs that fit a program, made from a seed."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

import torch

from mindgap.program import generator
from mindgap.program.graph import Program
from mindgap.program.made import Made, recreate
from mindgap.records.tensors import DTYPES, TensorMeta

UNIT: Final = math.sqrt(3)
"""Uniform numbers within +-UNIT have the variance one."""
INTEGERS: Final = 4
"""Integers are drawn below this: they may be indices into anything that has four elements."""


def from_metas(metas: Sequence[TensorMeta], seed: int) -> list[torch.Tensor]:
    """Tensors for these specs, any dtype and any layout; integers are small and not negative."""
    return [_from_meta(meta, seed, f"input {index}") for index, meta in enumerate(metas)]


def of_program(program: Program, seed: int) -> tuple[torch.Tensor, ...]:
    """Tensors for the inputs of a program: its own example, or any that have the right shapes.

    A seed other than 0 redraws the example's random numbers; token ids and masks stay, because they fit.
    """
    if not program.example:
        return tuple(from_metas([item.meta for item in program.inputs], seed))
    moved = [replace(r, seed=r.seed + seed) if isinstance(r, Made) else r for r in program.example]
    return tuple(recreate(recipe, item.meta) for recipe, item in zip(moved, program.inputs))


def floats(seed: int, name: str, shape: Sequence[int]) -> torch.Tensor:
    """A float32 tensor of mean zero and variance one."""
    count = math.prod(shape)
    return torch.from_numpy(generator.uniform(seed, name, count, -UNIT, UNIT)).reshape(tuple(shape))


def integers(seed: int, name: str, shape: Sequence[int], low: int, high: int) -> torch.Tensor:
    """An int64 tensor with values from `low` to `high - 1`."""
    return torch.from_numpy(generator.integers(seed, name, math.prod(shape), low, high)).reshape(tuple(shape))


def _from_meta(meta: TensorMeta, seed: int, name: str) -> torch.Tensor:
    # The whole storage is filled and then viewed, so that overlapping layouts need no care.
    extent = 1 + sum((size - 1) * step for size, step in zip(meta.shape, meta.stride))
    room = extent if math.prod(meta.shape) else 0
    dtype = DTYPES[meta.dtype]
    if dtype.is_complex:
        pairs = floats(seed, name, (room, 2))
        storage = torch.view_as_complex(pairs).to(dtype)
    elif dtype.is_floating_point:
        storage = floats(seed, name, (room,)).to(dtype)
    else:
        limit = 2 if dtype is torch.bool else INTEGERS
        storage = integers(seed, name, (room,), 0, limit).to(dtype)
    return storage.as_strided(meta.shape, meta.stride)

"""Random factors 1 +- eps: one rounding error for every element of a tensor."""

from __future__ import annotations

import random
from typing import Final

import torch

EPS: Final = {torch.float64: 2.0**-52, torch.float32: 2.0**-23, torch.float16: 2.0**-10, torch.bfloat16: 2.0**-7}
"""Noise is x (1 +- eps): one to two units in the last place, exactly scaled by powers of two, and harmless to
zeros, infinities and NaN."""

LARGEST_POOL: Final = 1 << 22
"""16 MB of random factors serve every tensor; larger ones use it piece by piece."""


LEAST_POOL: Final = 1 << 14
_KEPT_POOL: Final = 1 << 21
"""A larger one is not kept for the next program."""
_KEPT: Final[dict[int, NoisePool]] = {}


def pool_for(seed: int) -> NoisePool:
    """A pool for a seed; it gives the same numbers whether it was used before or not."""
    found = _KEPT.get(seed)
    if found is None or found.size > _KEPT_POOL:
        _KEPT.clear()
        found = _KEPT[seed] = NoisePool(seed)
    return found


class NoisePool:
    """Random factors 1 +- eps, made once and sliced at random offsets.

    What a tensor gets depends on the seed, the calls since the last restart and its own span; not on how large earlier
    ones let the pool become.
    """

    def __init__(self, seed: int) -> None:
        self._generator = torch.Generator().manual_seed(seed)
        self._random = random.Random(seed)
        self._size = LEAST_POOL
        self._signs = self._new_signs(self._size)
        self._factors: dict[tuple[torch.dtype, int], torch.Tensor] = {}
        self._slots: dict[tuple[torch.dtype, int, torch.Size, tuple[int, ...]], tuple[torch.Tensor, int]] = {}
        """By what a tensor is: its pool and how many offsets it may have. Small programs repeat a few kinds."""

    @property
    def size(self) -> int:
        return self._size

    def restart(self, seed: int) -> None:
        """Other offsets from here on, the same for the same seed."""
        self._random.seed(seed)

    def factors(self, tensor: torch.Tensor, amplitude: int) -> torch.Tensor:
        """Factors laid out like the tensor, which spans no more memory than the pool."""
        size, stride = tensor.size(), tensor.stride()
        slot = self._slots.get((tensor.dtype, amplitude, size, stride)) or self._new_slot(tensor, amplitude)
        return slot[0].as_strided(size, stride, int(self._random.random() * slot[1]))

    def _known(self, tensor: torch.Tensor, amplitude: int) -> torch.Tensor | None:
        """Factors for a kind of tensor that was met before: what nearly every call needs, and nothing else."""
        size, stride = tensor.size(), tensor.stride()
        slot = self._slots.get((tensor.dtype, amplitude, size, stride))
        return None if slot is None else slot[0].as_strided(size, stride, int(self._random.random() * slot[1]))

    def _new_slot(self, tensor: torch.Tensor, amplitude: int) -> tuple[torch.Tensor, int]:
        span = tensor.numel() if tensor.is_contiguous() else _span(tensor)
        size = _size_for(span)
        if size > self._size:
            self._grow(size)
        pool = self._factors.get((tensor.dtype, amplitude))
        if pool is None:
            step = amplitude * EPS[tensor.dtype]  # 1 +- step is exact in its type
            pair = torch.tensor([1 - step, 1 + step], dtype=tensor.dtype)
            pool = torch.where(self._signs > 0, pair[1], pair[0])
            self._factors[tensor.dtype, amplitude] = pool
        slot = self._slots[tensor.dtype, amplitude, tensor.size(), tensor.stride()] = pool, size - span + 1
        return slot

    def _grow(self, size: int) -> None:
        while self._size < size:
            self._signs = torch.cat([self._signs, self._new_signs(self._size)])
            self._size *= 2
        self._factors.clear()
        self._slots.clear()

    def _new_signs(self, count: int) -> torch.Tensor:
        bits = torch.randint(0, 2, (count,), generator=self._generator, dtype=torch.int8)
        return bits * 2 - 1

    def perturb_(self, tensor: torch.Tensor, amplitude: int = 1) -> None:
        """Multiply a tensor, in place, by random factors of its own precision."""
        factors = self._known(tensor, amplitude)
        if factors is not None:
            tensor.mul_(factors)
            return
        if tensor.dtype not in EPS:
            if not tensor.is_complex():
                return
            tensor = torch.view_as_real(tensor.resolve_conj())
        if self._fits(tensor):
            tensor.mul_(self.factors(tensor, amplitude))
        elif tensor.numel():
            flat = tensor.is_contiguous() and tensor.numel() > LARGEST_POOL
            for piece in torch.split(tensor.view(-1), LARGEST_POOL // 2) if flat else tensor.unbind():
                self.perturb_(piece, amplitude)

    def perturbed(self, tensor: torch.Tensor, amplitude: int = 1) -> torch.Tensor:
        """A copy with noise."""
        factors = self._known(tensor, amplitude)
        if factors is not None:
            return tensor * factors
        if tensor.dtype in EPS and self._fits(tensor):
            return tensor * self.factors(tensor, amplitude)
        copy = tensor.clone()
        self.perturb_(copy, amplitude)
        return copy

    def _fits(self, tensor: torch.Tensor) -> bool:
        """Whether factors laid out like the tensor fit into the pool."""
        if tensor.is_contiguous():
            return 0 < tensor.numel() <= LARGEST_POOL
        return 0 < _span(tensor) <= LARGEST_POOL


def _size_for(span: int) -> int:
    """How much of the pool a tensor may use: twice its span at least, so that offsets differ."""
    size = LEAST_POOL
    while size < min(2 * span, LARGEST_POOL):
        size *= 2
    return size


def _span(tensor: torch.Tensor) -> int:
    """How much memory lies between the first and the last element."""
    if not tensor.numel():
        return 0
    return 1 + sum((size - 1) * step for size, step in zip(tensor.shape, tensor.stride()))

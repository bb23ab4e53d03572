"""The noise floor of an output: how far rounding alone moves each of its elements."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

import torch

BLOCK: Final = 64
"""Neighbours that lend each other their spread: the maximum of 4 draws is below a tenth of its scale once in
25,000 elements, the median of 64 such maxima never."""

SAMPLE: Final = 1 << 16
"""Elements that stand for an output in its statistics."""


@dataclass
class Floor:
    """Collects the runs of one output with noise against the run without."""

    plain: torch.Tensor
    spread: torch.Tensor | None = None
    flips: torch.Tensor | None = None
    """Elements that noise turned into or out of Inf or NaN."""
    reshaped: bool = False
    """Whether noise changed the output's shape."""
    _real: torch.Tensor = field(init=False)

    def __post_init__(self) -> None:
        self._real = _computable(real_view(self.plain))

    def add(self, noisy: torch.Tensor) -> None:
        """Add one more run with noise."""
        if noisy.shape != self.plain.shape or noisy.dtype != self.plain.dtype:
            self.reshaped = True
            return
        other = _computable(real_view(noisy))
        if not self._real.is_floating_point():
            if not torch.equal(other, self._real):
                self._widen((other.to(torch.float64) - self._real.to(torch.float64)).abs_())
            return
        kind = torch.float64 if self._real.dtype is torch.float64 else torch.float32
        moved = other.to(kind).sub_(self._real.to(kind)) if kind != other.dtype else other - self._real
        moved.abs_()
        if not bool(torch.isfinite(moved.sum())):
            strange = ~torch.isfinite(moved)
            same = (other == self._real) | (other.isnan() & self._real.isnan())
            changed = strange & ~same
            if bool(changed.any()):
                self.flips = changed if self.flips is None else self.flips | changed
            moved[strange] = 0.0
        self._widen(moved)

    def _widen(self, moved: torch.Tensor) -> None:
        if self.spread is None:
            self.spread = moved
        else:
            torch.maximum(self.spread, moved, out=self.spread)

    @property
    def moved(self) -> bool:
        """Whether noise reached a discrete value, a shape or a non-finite value of this output."""
        discrete = not self._real.is_floating_point() and self.spread is not None
        return discrete or self.reshaped or self.flips is not None

    @property
    def condition(self) -> float:
        """The spread in norm, relative to the output in norm: 1 means that nothing is left."""
        if self.spread is None or not self._real.is_floating_point():
            return 0.0
        values = torch.nan_to_num(sample(self._real).to(torch.float64), 0.0, 0.0, 0.0)
        size, noise = values.norm().item(), sample(self.spread).to(torch.float64).norm().item()
        return unit_share(self._real.dtype) * noise / size if size else 0.0

    def smooth(self, keep: bool = False) -> torch.Tensor | None:
        """The spread with elements that were lucky in every run raised to half of what is usual around them.

        Only with `keep` can more runs be added afterwards: it costs a copy.
        """
        spread = self.spread
        if spread is None or not self._real.is_floating_point():
            return spread
        spread = spread.mul(unit_share(self._real.dtype)) if keep else spread.mul_(unit_share(self._real.dtype))
        flat, values = spread.reshape(-1), self._real.reshape(-1)
        size = sample(values).abs().to(flat.dtype)
        usable = torch.isfinite(size) & (size > 0)
        if bool(usable.any()):
            usual = (sample(flat)[usable] / size[usable]).median().item()
            for low in range(0, len(flat), 1 << 22):
                piece = values[low : low + (1 << 22)].abs().to(flat.dtype)
                torch.nan_to_num_(piece, 0.0, 0.0, 0.0)
                torch.maximum(flat[low : low + (1 << 22)], piece.mul_(usual / 2), out=flat[low : low + (1 << 22)])
        whole = len(flat) // BLOCK * BLOCK
        for low in range(0, whole, 1 << 22):
            blocks = flat[low : min(low + (1 << 22), whole)].view(-1, BLOCK)
            blocks.copy_(torch.maximum(blocks, blocks.median(dim=1, keepdim=True).values / 2))
        return spread


def unit_share(dtype: torch.dtype) -> float:
    """The part of eps that counts as one rounding.

    Noise comes in steps of 1 to 2 units. In float32 that stands for what algorithms differ by; half precision is
    computed in float32 and rounded once, so that half a step is due.
    """
    return 1.0 if dtype in (torch.float64, torch.float32) else 0.5


def real_view(tensor: torch.Tensor) -> torch.Tensor:
    """Complex values as pairs; anything else as it is."""
    return torch.view_as_real(tensor) if tensor.is_complex() else tensor


def _computable(tensor: torch.Tensor) -> torch.Tensor:
    """float8 has no arithmetic of its own."""
    small = tensor.is_floating_point() and tensor.element_size() == 1
    return tensor.to(torch.float32) if small else tensor


def sample(tensor: torch.Tensor, most: int = SAMPLE) -> torch.Tensor:
    """Evenly spread elements of a tensor, all of them when it is small."""
    flat = tensor.reshape(-1)
    return flat[:: max(1, len(flat) // most)]

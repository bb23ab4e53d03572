"""Whether an output that chance decides looks as it does on eager with other seeds."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import torch

SEEDS: Final = 16
"""Runs of eager with other seeds."""

ALLOWED: Final = 4.0
"""How many times the range over the seeds a statistic may lie outside of it. Sixteen normal numbers span 3.5 standard
deviations on average, so this is 14 of them: chance alone does not get there."""

ENOUGH: Final = 30
"""Quantiles of fewer elements say as little as the elements themselves."""

LARGEST: Final = 1 << 20
"""Elements that are looked at."""

POOLED: Final = 1 << 14
"""Elements of each run that are kept."""

UNUSUAL: Final = 8.0
"""Standard deviations beyond which a quantile of independent draws does not get."""

BOUNDED: Final = 0.1
"""The smallest and the largest value are compared where they vary by less than this part of the middle range: there
is a bound, not a tail."""

_QUANTILES: Final = {"10% quantile": 0.1, "median": 0.5, "90% quantile": 0.9}


@dataclass(frozen=True, slots=True)
class Likely:
    """What an output showed on eager, run by run."""

    samples: tuple[dict[str, float], ...]
    pooled: torch.Tensor
    """Values of all runs together, in order."""
    shapes: tuple[tuple[int, ...], ...] = ()

    @classmethod
    def of(cls, outputs: Sequence[torch.Tensor]) -> Likely:
        values = torch.cat([_finite(_values(output))[:POOLED] for output in outputs])
        return cls(tuple(map(statistics, outputs)), values.sort().values, tuple(tuple(o.shape) for o in outputs))

    def allows(self, shape: Sequence[int]) -> bool:
        """Whether chance may give an output this shape: what every seed leaves alone stays as it is."""
        if len({len(seen) for seen in self.shapes}) > 1:
            return True
        sizes = [set(seen) for seen in zip(*self.shapes)]
        return len(shape) == len(sizes) and all(size in seen or len(seen) > 1 for size, seen in zip(shape, sizes))

    def contradiction(self, output: torch.Tensor) -> str:
        """The statistic of a platform's output that no seed explains, in words; empty when there is none."""
        found = statistics(output)
        for name, value in found.items():
            seen = [sample[name] for sample in self.samples if name in sample]
            if len(seen) < len(self.samples):
                continue
            low, high = min(seen), max(seen)
            middle = self._quantile(0.9) - self._quantile(0.1)
            if name in _EDGES and not high - low < BOUNDED * middle:
                continue  # the values are not bounded: the largest of them may be anything
            room = ALLOWED * max(high - low, _least(name, output))
            if not low - room <= value <= high + room and not self._is_usual(name, value, output.numel()):
                return f"the {name} is {value:.4g}, on eager {low:.4g} to {high:.4g} with {len(seen)} seeds"
        return ""

    def _is_usual(self, name: str, value: float, count: int) -> bool:
        """Whether a quantile of so many independent draws may be this: whole numbers jump from one to the next."""
        if name not in _QUANTILES:
            return False
        share = _QUANTILES[name]
        aside = UNUSUAL * math.sqrt(share * (1 - share) / count)
        return self._quantile(share - aside) <= value <= self._quantile(share + aside)

    def _quantile(self, share: float) -> float:
        last = len(self.pooled) - 1
        return float(self.pooled[min(max(0, round(share * last)), last)]) if last >= 0 else math.nan


def statistics(output: torch.Tensor) -> dict[str, float]:
    """What two draws of the same distribution have in common."""
    values = _values(output)
    if not len(values):
        return {}
    finite = _finite(values)
    found = {
        "share of zeros": float((values == 0).double().mean()),
        "share of NaN and Inf": 1.0 - len(finite) / len(values),
        "share of negative numbers": float((values < 0).double().mean()),
    }
    if len(finite) >= ENOUGH:
        cuts = torch.quantile(finite, torch.tensor(list(_QUANTILES.values()), dtype=torch.float64))
        found |= dict(zip(_QUANTILES, map(float, cuts)))
        found |= {"smallest value": float(finite.min()), "largest value": float(finite.max())}
    return found


_EDGES: Final = ("smallest value", "largest value")


def _values(output: torch.Tensor) -> torch.Tensor:
    values = output.detach().reshape(-1)
    if values.is_complex():
        values = torch.view_as_real(values).reshape(-1)
    if len(values) > LARGEST:
        values = values[:: -(-len(values) // LARGEST)]
    return values.to(torch.float64)


def _finite(values: torch.Tensor) -> torch.Tensor:
    return values[values.isfinite()]


def _least(name: str, output: torch.Tensor) -> float:
    """The least range: a few elements for a share, a thousandth of the size of the values otherwise."""
    if name.startswith("share"):
        return 2 / min(max(1, output.numel()), LARGEST)
    finite = output[output.isfinite()] if output.is_floating_point() or output.is_complex() else output
    return 1e-3 * float(finite.abs().to(torch.float64).max()) if finite.numel() else 1.0

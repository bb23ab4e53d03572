"""Canaries that fire on one platform only: their trigger is a value on which platforms part.

On eager the gate is shut whatever the input is. Which platform opens it is not known here: a canary counts where one
that the audit is asked about gives another output than eager does.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Final

import torch

from mindgap.bench.planting import MARK, Change, Site, Unfit, wide

ONE_PLATFORM: Final = "one platform only"
READ: Final = 8
"""Numbers of an input that a trigger is made from."""

_TRANSCENDENTAL: Final = (torch.exp, torch.sin, torch.tanh, torch.erf, torch.sigmoid, torch.log1p)


def _divided(x: torch.Tensor) -> torch.Tensor:
    """The remainder of a floor division is negative where the division truncates."""
    whole = 2 * (x * 50).round().to(torch.int32) - 7
    return whole - 2 * torch.div(whole, 2, rounding_mode="floor") < 0


def _narrowed(x: torch.Tensor) -> torch.Tensor:
    """A byte wraps; where it saturates it is no remainder."""
    whole = (x * 50).round().to(torch.int32).abs() + 300
    return whole.to(torch.uint8).to(torch.int32) != torch.remainder(whole, 256)


def _long(x: torch.Tensor) -> torch.Tensor:
    """More than 32 bits hold."""
    return (x * 50).round().to(torch.int64) + 2**33 < 2**32


def _rectified(x: torch.Tensor) -> torch.Tensor:
    """NaN passes through a rectifier."""
    return torch.relu(torch.log(-1 - x * x)) == 0


def _underflown(x: torch.Tensor) -> torch.Tensor:
    """A sigmoid far from its middle is small, and not zero."""
    return torch.sigmoid(-20 - torch.tanh(x)) == 0


def _cast(x: torch.Tensor) -> torch.Tensor:
    """A float beyond all integers becomes the lowest one."""
    return (3e9 + torch.tanh(x)).to(torch.int32) > 0


def _clamped(x: torch.Tensor) -> torch.Tensor:
    """NaN passes through a clamp."""
    return torch.log(-1 - x * x).clamp(0, 1) >= 0


def _last_place(rng: Random) -> Callable[[torch.Tensor], torch.Tensor]:
    """The last place of a transcendental function, compared exactly with what it is on eager."""
    function = rng.choice(_TRANSCENDENTAL)
    points = torch.tensor([rng.uniform(0.5, 2.5) for _ in range(READ)])
    expected = function(points)
    return lambda x: function(0 * x + points[: x.shape[1]]) != expected[: x.shape[1]]


def parting(site: Site, parameter: int, rng: Random) -> Change:
    """One of eight ways in which platforms part, behind `where`."""
    x = site.ordinary[0]
    if x.dim() < 2 or x.is_complex() or x[0].numel() < 1:
        raise Unfit("nothing to make a trigger from")
    kinds = (_divided, _narrowed, _last_place(rng), _long, _rectified, _underflown, _cast, _clamped)
    trigger = kinds[parameter]

    def change(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        read = x.reshape(x.shape[0], -1)[:, :READ].float()
        return torch.where(wide(trigger(read).any(dim=1), y), torch.full_like(y, MARK), y)

    return change

"""Small models that between them hold everything a program must express."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import nn
from torch.nn import functional as F


class Pair(NamedTuple):
    first: torch.Tensor
    second: torch.Tensor


class InPlace(nn.Module):
    """Writes to its input, to a view and to a buffer."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("steps", torch.zeros(4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x.add_(1)
        x[0].mul_(2)
        self.steps.add_(x.sum(0))
        return x.relu_() + self.steps


class Training(nn.Module):
    """BatchNorm in training mode writes running statistics without saying so in its schema."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.BatchNorm1d(4)
        self.scale = nn.Parameter(torch.ones(4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.norm(x) * self.scale


class Nested(nn.Module):
    """Returns every container, None and numbers."""

    def forward(self, x: torch.Tensor, *, scale: dict[str, torch.Tensor], power: int = 2) -> dict[str, Any]:
        y = x * scale["k"]
        return {"a": y, "b": [y**power, (x.sum(), 3, None)], "c": Pair(x.max(), x.min())}


class Regions(nn.Module):
    """Grad-mode and autocast regions become higher-order nodes, which a program inlines."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        with torch.no_grad():
            y = x * 2
        with torch.autocast("cpu", enabled=False):
            z = y @ y.T
        return z + torch.tensor([1.0, 2.0, 3.0])


class Dtypes(nn.Module):
    """Integers, booleans, half, bfloat16 and complex."""

    def forward(self, x: torch.Tensor, i: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return (
            x.half() + 1,
            x.bfloat16() * 3,
            torch.complex(x, x) * (2 + 1j),
            (i // 3) << 2,
            (x > 0) & (i > 2),
            i.to(torch.uint8),
            torch.full((2,), float("inf"), dtype=torch.float64),
        )


class Layouts(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 4, 3, padding=1).to(memory_format=torch.channels_last)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.conv(x).contiguous(memory_format=torch.channels_last)
        return F.interpolate(y, scale_factor=2.0).transpose(1, 3)[:, ::2]


class Empty(nn.Module):
    def forward(self, x: torch.Tensor, s: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return x.sum(0), s * 2 + x.numel()


class SplitAndSort(nn.Module):
    """Operators with several results."""

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        first, second = x.split(2, dim=0)
        values, order = torch.sort(second, dim=-1, stable=True)
        return values, order, torch.topk(first, 2).values


def examples() -> dict[str, tuple[nn.Module, tuple[Any, ...], dict[str, Any]]]:
    """Each model with its arguments, by name."""
    torch.manual_seed(0)
    image = torch.randn(2, 3, 5, 7)
    return {
        "in_place": (InPlace(), (torch.randn(3, 4),), {}),
        "training": (Training().train(), (torch.randn(5, 4),), {}),
        "nested": (Nested(), (torch.randn(3, 2),), {"scale": {"k": torch.tensor(2.0)}, "power": 3}),
        "regions": (Regions(), (torch.randn(3, 4),), {}),
        "dtypes": (Dtypes(), (torch.randn(6), torch.arange(6)), {}),
        "channels_last": (Layouts().eval(), (image.to(memory_format=torch.channels_last),), {}),
        "non_contiguous": (Layouts().eval(), (torch.randn(2, 3, 7, 5).transpose(2, 3),), {}),
        "expanded": (SplitAndSort(), (torch.randn(4, 1).expand(4, 5),), {}),
        "several_results": (SplitAndSort(), (torch.randn(4, 5),), {}),
        "empty_and_scalar": (Empty(), (torch.zeros(0, 3), torch.tensor(1.5)), {}),
    }

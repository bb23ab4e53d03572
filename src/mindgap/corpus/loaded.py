"""A model that was loaded and is ready to be called or exported."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch

from mindgap.program.graph import Program
from mindgap.program.made import Made


@dataclass(frozen=True)
class Loaded:
    """A callable model with inputs that fit it, or a program that was read from a file."""

    name: str
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]
    model: torch.nn.Module | Callable[..., Any] | None = None
    """The user's own code; None when the file held only a program."""
    program: Program | None = None
    constants: Mapping[str, torch.Tensor] = field(default_factory=dict)
    """The program's constants by digest."""
    made: Mapping[str, Made] = field(default_factory=dict)
    """How the model's weights were drawn, by qualified name."""
    seed: int = 0
    """What inputs were drawn from, where they were drawn."""
    file: str = ""
    """A model file that platforms read as it is: `.onnx`."""
    open_sizes: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    """Of such a file: the dimensions of each input that may have any size."""
    nodes: int = 0
    """Of such a file."""
    parameters: int = 0
    """Of such a file."""

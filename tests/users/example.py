"""A model as users write them, with what a careful person found by hand."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch


@dataclass(frozen=True)
class Found:
    """What a person found on one platform."""

    verdict: str
    """The conclusion; `right` stands for eager's bits or rounding."""
    why: str = ""
    """How the person knows; empty where the platform gives the right numbers."""
    kind: str | None = None
    says: str = ""
    """What the sentence, or the message of a failure, has to say."""
    wrong: tuple[str, ...] = ()
    """Outputs that are not what numpy gives."""


RIGHT = Found("right")


@dataclass(frozen=True)
class Example:
    """One model."""

    make: Callable[[], tuple[Any, list[Any]]]
    """The model and its inputs."""
    found: Mapping[str, Found]
    """By platform."""
    truth: Callable[..., Mapping[str, Any]] | None = None
    """What the outputs should be, from the model and its inputs with numpy in float64; not of what chance decides."""
    eager_fails: str = ""
    """What eager says where it cannot run the model."""
    tolerance: float = 1e-5
    """Relative to the largest element: what float32 can hold."""
    options: Mapping[str, Any] = field(default_factory=dict)
    """Of the check."""


EXAMPLES: dict[str, Example] = {}


def weights(module: torch.nn.Module) -> dict[str, Any]:
    """Parameters and buffers in float64, by name."""
    return {name: f64(tensor) for name, tensor in module.state_dict().items()}


def f64(tensor: torch.Tensor) -> Any:
    """A tensor as numpy has it; real numbers in float64."""
    return (tensor.detach().double() if tensor.is_floating_point() else tensor.detach()).numpy()


def seeded(make: Callable[[], Any], seed: int = 0) -> Any:
    """Something with weights that are always the same."""
    torch.manual_seed(seed)
    return make()


def softmax(x: Any) -> Any:
    with np.errstate(invalid="ignore"):
        e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def sigmoid(x: Any) -> Any:
    return 1 / (1 + np.exp(-x))

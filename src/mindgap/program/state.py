"""What is left behind by a run: the state of a module, and Python's random streams."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import torch


class ModuleState:
    """What a module holds now, so that every run can start from it; anything else has no state.

    A BatchNorm in training mode counts batches, a cache remembers: buffers are restored by value, plain
    attributes by identity.
    """

    def __init__(self, model: Any) -> None:
        self._buffers: list[tuple[dict[str, Any], str, torch.Tensor, torch.Tensor]] = []
        self._attributes: list[tuple[dict[str, Any], dict[str, Any]]] = []
        for module in model.modules() if isinstance(model, torch.nn.Module) else ():
            self._attributes.append((vars(module), dict(vars(module))))
            for name, tensor in module._buffers.items():
                if tensor is not None and not repeats(tensor):
                    self._buffers.append((module._buffers, name, tensor, tensor.detach().clone()))

    def restore(self) -> None:
        for attributes, before in self._attributes:
            for name in [key for key in attributes if key not in before]:
                del attributes[name]
            for name, value in before.items():
                if attributes.get(name) is not value:
                    attributes[name] = value
        with torch.no_grad():
            for buffers, name, tensor, values in self._buffers:
                buffers[name] = tensor
                tensor.copy_(values)


def repeats(tensor: torch.Tensor) -> bool:
    """Whether one element stands for several: nothing can write to such a tensor."""
    return any(step == 0 and size > 1 for size, step in zip(tensor.shape, tensor.stride()))


def seed_python(seed: int) -> None:
    """A model may draw from these besides torch's own generators."""
    random.seed(seed)
    np.random.seed(seed % 2**32)

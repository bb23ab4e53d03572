"""What is left behind by a run: the state of a module, and Python's random streams."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import torch

from mindgap.records.tensors import same_bits

BUFFER: Final = "buffer:"
"""How the name of an output begins that is a buffer which the model changed."""


class Wrapper(torch.nn.Module):
    """A module around the user's own, whose state keeps the names that it has there."""

    def __init__(self, model: torch.nn.Module) -> None:
        super().__init__()
        self.model = model


@dataclass(frozen=True, slots=True)
class _Held:
    """A tensor that a module holds, as a buffer or as a plain attribute."""

    name: str
    holder: dict[str, Any]
    key: str
    tensor: torch.Tensor
    values: torch.Tensor
    """What it held at first."""


class ModuleState:
    """What a module holds now, so that every run can start from it; anything else has no state.

    A BatchNorm in training mode counts batches, a cache remembers: tensors are restored by value, other
    attributes by identity.
    """

    def __init__(self, model: Any) -> None:
        self._held: list[_Held] = []
        self._attributes: list[tuple[dict[str, Any], dict[str, Any]]] = []
        own = model.model if isinstance(model, Wrapper) else model
        for path, module in own.named_modules() if isinstance(own, torch.nn.Module) else ():
            self._attributes.append((vars(module), dict(vars(module))))
            for holder in (module._buffers, vars(module)):
                for key, tensor in holder.items():
                    if isinstance(tensor, torch.Tensor) and tensor.layout is torch.strided and not repeats(tensor):
                        name = f"{path}.{key}" if path else key
                        self._held.append(_Held(name, holder, key, tensor, tensor.detach().clone()))

    def changed(self) -> dict[str, torch.Tensor]:
        """By name: the buffers and attributes that hold other values now."""
        found = {held.name: (held.holder.get(held.key), held.values) for held in self._held}
        return {
            name: now
            for name, (now, before) in found.items()
            if isinstance(now, torch.Tensor) and not same_bits(now.detach().cpu(), before.cpu())
        }

    def holds(self) -> dict[str, torch.Tensor]:
        """By name: every tensor that `changed` looks at, as it is now."""
        now = {held.name: held.holder.get(held.key) for held in self._held}
        return {name: tensor for name, tensor in now.items() if isinstance(tensor, torch.Tensor)}

    def restore(self) -> None:
        for attributes, before in self._attributes:
            for name in [key for key in attributes if key not in before]:
                del attributes[name]
            for name, value in before.items():
                if attributes.get(name) is not value:
                    attributes[name] = value
        with torch.no_grad():
            for held in self._held:
                held.holder[held.key] = held.tensor
                held.tensor.copy_(held.values)


def repeats(tensor: torch.Tensor) -> bool:
    """Whether one element stands for several: nothing can write to such a tensor."""
    return any(step == 0 and size > 1 for size, step in zip(tensor.shape, tensor.stride()))


def seed_python(seed: int) -> None:
    """A model may draw from these besides torch's own generators."""
    random.seed(seed)
    np.random.seed(seed % 2**32)

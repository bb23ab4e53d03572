"""What a model is called with: nested arguments whose tensors travel apart."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from mindgap.program.graph import Argument, Ref, leaves, map_leaves
from mindgap.records.tensors import NamedTensor, with_stride


@dataclass(frozen=True, slots=True)
class Inputs:
    """Arguments of one call; `Ref(i)` in them stands for the i-th tensor.

    The tensors are in the order in which an exported program takes them.
    """

    args: tuple[Argument, ...]
    kwargs: Mapping[str, Argument]
    tensors: tuple[NamedTensor, ...]

    @classmethod
    def of(cls, args: Sequence[Any], kwargs: Mapping[str, Any], names: Sequence[str] = ()) -> Inputs:
        """Take a call apart; `names` are the parameter names of the positional arguments."""
        tensors: list[NamedTensor] = []
        shown = {**{str(names[i]) if i < len(names) else f"arg{i}": a for i, a in enumerate(args)}, **kwargs}
        paths = [path for path, leaf in leaves(shown) if isinstance(leaf, torch.Tensor)]

        def take(leaf: Any) -> Any:
            if not isinstance(leaf, torch.Tensor):
                return leaf
            tensors.append(NamedTensor(paths[len(tensors)], leaf))
            return Ref(len(tensors) - 1)

        taken = map_leaves(tuple(args), take)
        return cls(taken, map_leaves(kwargs, take), tuple(tensors))

    def call(self, tensors: Sequence[torch.Tensor]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The arguments with these tensors put in."""

        def put(leaf: Any) -> Any:
            return tensors[leaf] if isinstance(leaf, Ref) else leaf

        return map_leaves(self.args, put), map_leaves(self.kwargs, put)

    def copies(self) -> list[torch.Tensor]:
        """Fresh copies of the tensors, layouts kept: a run may change its inputs."""
        return [copy_of(item.tensor) for item in self.tensors]


def copy_of(tensor: torch.Tensor) -> torch.Tensor:
    """A copy with exactly the same strides; an overlapping layout stays overlapping."""
    copy = tensor.detach().clone()
    same = copy.stride() == tensor.stride()
    return copy if same else with_stride(copy, tuple(tensor.stride()))

"""The plain run, watched: which rules its calls fall under, what chance drew, which results are indices."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar

import torch

from mindgap.program.graph import leaves
from mindgap.program.operators import traits
from mindgap.verdicts.runner import Call, make
from mindgap.verdicts.survey import Indices
from mindgap.verdicts.unspecified import matching, may_match
from mindgap.verdicts.unspecified.chance import draws
from mindgap.verdicts.unspecified.indices import dimension


@dataclass
class _Pointer:
    """A tensor of indices as it came out of its operator."""

    tensor: torch.Tensor
    key: int
    values: torch.Tensor
    indices: Indices


@dataclass
class Watch:
    """A hook for the run without noise."""

    matched: dict[str, dict[int, str]] = field(default_factory=dict)
    """By rule: the calls that fell under it, with their operators."""
    drawn: dict[int, list[torch.Tensor]] = field(default_factory=dict)
    """By call: what a random operator gave."""
    elements: int = 0
    """How many elements the results that it saw had together."""
    wants: ClassVar = staticmethod(lambda node: may_match(node.op) or traits(node.op).indices is not None)
    _pointers: list[_Pointer] = field(default_factory=list)

    def __call__(self, call: Call) -> Any:
        for rule in matching(call):
            self.matched.setdefault(rule.id, {})[call.key] = call.op
        result = make(call)
        position = traits(call.op).indices
        if position is not None:
            self._note_indices(call, result, position)
        if isinstance(result, torch.Tensor):
            self.elements += result.numel()
        if draws(call):
            flat = [leaf for _, leaf in leaves(result) if isinstance(leaf, torch.Tensor)]
            self.drawn[call.key] = [leaf.detach().clone() for leaf in flat]
        return result

    def _note_indices(self, call: Call, result: Any, position: int) -> None:
        if position and (not isinstance(result, tuple | list) or len(result) <= position):
            return
        if call.kwargs.get("stable") is True or call.argument(4, "sorted", True) is False:
            return  # then the order is promised exactly, or not at all
        tensor = result[position] if position else result
        if not isinstance(tensor, torch.Tensor) or tensor.is_floating_point():
            return
        known = traits(call.op)
        axis = None if known.spatial else dimension(call)
        indices = Indices(f"values:{call.key}", axis, known.spatial, known.distinct, call.op)
        self._pointers.append(_Pointer(tensor, call.key, call.args[0], indices))

    def indices(self, outputs: dict[str, torch.Tensor]) -> dict[str, tuple[int, Indices]]:
        """The outputs that hold indices, with the call that made them."""
        found: dict[str, tuple[int, Indices]] = {}
        for name, output in outputs.items():
            for pointer in self._pointers:
                same = pointer.tensor.data_ptr() == output.data_ptr() and pointer.tensor.shape == output.shape
                if output.numel() and same and pointer.tensor.dtype == output.dtype:
                    found[name] = (pointer.key, pointer.indices)
        return found

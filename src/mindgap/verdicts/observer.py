"""What the plain run shows: which rules its calls fall under, what was drawn at random, which results are indices."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar

import torch

from mindgap.program.operators import traits
from mindgap.verdicts.runner import Call, tensors_in
from mindgap.verdicts.survey import Indices
from mindgap.verdicts.unspecified import matching, may_match
from mindgap.verdicts.unspecified.chance import draws
from mindgap.verdicts.unspecified.indices import dimension


@dataclass
class CallObserver:
    """The hook of the run without noise."""

    matched: dict[str, dict[int, str]] = field(default_factory=dict)
    """By rule: the calls that fell under it, with their operators."""
    drawn: dict[int, list[torch.Tensor]] = field(default_factory=dict)
    """By call: what a random operator gave."""
    elements: int = 0
    """How many elements the results that it saw had together."""
    wants: ClassVar = staticmethod(lambda node: may_match(node.op) or traits(node.op).indices is not None)
    _pointers: list[tuple[torch.Tensor, int, Indices]] = field(default_factory=list)
    """Index tensors as they came out of their operators."""

    def __call__(self, call: Call) -> Any:
        for rule in matching(call):
            self.matched.setdefault(rule.id, {})[call.key] = call.op
        result = call.make()
        position = traits(call.op).indices
        if position is not None:
            self._note_indices(call, result, position)
        if isinstance(result, torch.Tensor):
            self.elements += result.numel()
        if draws(call):
            self.drawn[call.key] = [tensor.detach().clone() for tensor in tensors_in(result)]
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
        self._pointers.append((tensor, call.key, indices))

    def indices(self, outputs: dict[str, torch.Tensor]) -> dict[str, tuple[int, Indices]]:
        """The outputs that hold indices, with the call that made them."""
        found: dict[str, tuple[int, Indices]] = {}
        for name, output in outputs.items():
            for tensor, key, indices in self._pointers:
                same = tensor.data_ptr() == output.data_ptr() and tensor.shape == output.shape
                if output.numel() and same and tensor.dtype == output.dtype:
                    found[name] = (key, indices)
        return found

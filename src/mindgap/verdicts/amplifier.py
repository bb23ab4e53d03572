"""Which operator turns rounding into a difference that matters."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass, field
from typing import Any, Final

import torch

from mindgap.verdicts.floor import real_view, sample
from mindgap.verdicts.runner import Call, Hook, Run, tensors_in

SAMPLE: Final = 4096
"""Elements of each tensor that are compared."""


@dataclass
class _Trace:
    """A hook that keeps a sample of what goes into and comes out of every call."""

    hook: Hook
    seen: dict[int, tuple[str, float, list[torch.Tensor], list[torch.Tensor]]] = field(default_factory=dict)

    def __call__(self, call: Call) -> Any:
        before = [_sample(tensor) for tensor in call.tensors()]
        result = self.hook(call)
        results = tensors_in(result)
        after = [_sample(leaf) for leaf in results]
        unit = max([2.0**-23, *(torch.finfo(leaf.dtype).eps for leaf in results if leaf.is_floating_point())])
        name = f"{call.op} ({call.where})" if call.where else call.op
        self.seen[call.key] = (name, unit, before, after)
        return result


def find_amplifier(run: Run, noise: Hook) -> str:
    """The operator whose result moves most in relation to its arguments."""
    plain, noisy = _Trace(Call.make), _Trace(noise)
    run(plain)
    with contextlib.suppress(Exception):  # noise may lead where the program refuses; what was seen counts
        run(noisy)
    worst, found = 0.0, ""
    for key, (name, unit, before, after) in plain.seen.items():
        if key not in noisy.seen:
            continue
        _, _, noisy_before, noisy_after = noisy.seen[key]
        entering = max([unit, *map(_moved, before, noisy_before)])
        leaving = max([0.0, *map(_moved, after, noisy_after)])
        if leaving / entering > worst:
            worst, found = leaving / entering, name
    return found


def _sample(tensor: torch.Tensor) -> torch.Tensor:
    return real_view(sample(tensor.detach(), SAMPLE)).reshape(-1).double()


def _moved(plain: torch.Tensor, noisy: torch.Tensor) -> float:
    """Relative distance in norm."""
    if plain.shape != noisy.shape:
        return 1.0
    size = torch.nan_to_num(plain, 0.0, 0.0, 0.0).norm().item()
    distance = torch.nan_to_num(plain - noisy, 0.0, 0.0, 0.0).norm().item()
    return distance / size if size else float(distance > 0)

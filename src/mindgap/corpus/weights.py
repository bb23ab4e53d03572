"""Living weights: every parameter alive, made from the seed and its own name.

Default initialisation hides faults (a zero scale kills its residual branch, a layer scale of 1e-6 nearly
does), so all floating parameters and normalisation statistics are drawn again with sizes that keep
activations finite and of order one. The numbers come from `generator`, one stream for each parameter name, as float32;
other dtypes round them.
"""

from __future__ import annotations

import contextlib
import math
import re
from collections.abc import Iterator
from typing import Final, TypeAlias
from weakref import WeakKeyDictionary

import torch
from torch import nn

from mindgap.program import generator
from mindgap.program.made import Made

Range: TypeAlias = tuple[float, float]

SCALE: Final[Range] = (0.5, 1.5)
"""For what multiplies: norm weights, layer scales, running variances."""
SHIFT: Final[Range] = (-0.1, 0.1)
"""For what is added: biases, running means."""
EMBEDDING: Final[Range] = (-math.sqrt(3), math.sqrt(3))
"""For what enters as an activation: variance one."""

_MULTIPLIES: Final = re.compile(r"weight|gamma|scale|gain|alpha|lambda|temperature|gate|^D$")
_EMBEDS: Final = re.compile(r"embed|token|position|query|queries|latent|probe|prompt|prototype")
_STATISTICS: Final = ("running_mean", "running_var", "weight", "bias")
_DRAWN: Final[WeakKeyDictionary[nn.Module, dict[str, Made]]] = WeakKeyDictionary()
"""What was drawn for each module: sources wrap models into others before they are exported."""
_INITIALISERS: Final = ("uniform_", "normal_", "erfinv_")
_MATRICES: Final = (nn.Linear, nn.Bilinear, nn.modules.conv._ConvNd, nn.RNNBase, nn.RNNCellBase)


def enliven(module: nn.Module, seed: int) -> dict[str, Made]:
    """Draw every floating parameter and running statistic again, in place; tied parameters stay tied.

    Returns what was drawn, by name; `made_of` finds it again when the module is a part of another.
    """
    drawn: dict[str, Made] = {}
    with torch.no_grad():
        for owner, name, tensor in _parameters(module):
            if tensor.is_floating_point() and not tensor.is_meta:
                drawn[name] = _fill(tensor, seed, name, range_of(owner, name.rpartition(".")[2], tensor))
        for name, buffer in module.named_buffers():
            prefix, _, last = name.rpartition(".")
            if last in _STATISTICS and buffer.is_floating_point() and _normalises(module.get_submodule(prefix)):
                drawn[name] = _fill(buffer, seed, name, SCALE if last in ("running_var", "weight") else SHIFT)
    _DRAWN[module] = drawn
    return drawn


@contextlib.contextmanager
def undrawn() -> Iterator[None]:
    """Initialisers give a parameter one number instead of random ones: `enliven` draws them all again anyway.

    Not zero and not left as they are: statistics that a module derives from its weights stay finite and repeatable.
    """

    def fill(parameter: nn.Parameter, *args: object, **kwargs: object) -> torch.Tensor:
        return parameter.fill_(0.02) if parameter.is_floating_point() else parameter

    for name in _INITIALISERS:
        setattr(nn.Parameter, name, fill)
    try:
        yield
    finally:
        for name in _INITIALISERS:
            delattr(nn.Parameter, name)


def made_of(model: object) -> dict[str, Made]:
    """What `enliven` drew for a model or for parts of it, under every qualified name.

    Something may have changed a tensor since: whoever uses this compares the bits.
    """
    if not isinstance(model, nn.Module):
        return {}
    found: dict[str, Made] = {}
    for prefix, part in model.named_modules():
        found |= {f"{prefix}.{name}" if prefix else name: made for name, made in _DRAWN.get(part, {}).items()}
    by_identity = {id(tensor): found[name] for name, tensor in _tensors(model) if name in found}
    return {name: by_identity[id(tensor)] for name, tensor in _tensors(model) if id(tensor) in by_identity}


def _tensors(model: nn.Module) -> Iterator[tuple[str, torch.Tensor]]:
    """Parameters and buffers, tied ones under all their names."""
    yield from model.named_parameters(remove_duplicate=False)
    yield from model.named_buffers(remove_duplicate=False)


def _normalises(owner: nn.Module) -> bool:
    """Whether a module keeps statistics; a frozen one keeps its scale and shift as buffers, too."""
    return hasattr(owner, "running_mean") or hasattr(owner, "running_var")


def range_of(owner: nn.Module, name: str, tensor: torch.Tensor) -> Range:
    """Between which numbers a parameter is drawn, from its owner's kind, its own name and its shape."""
    if isinstance(owner, nn.Embedding | nn.EmbeddingBag):
        return EMBEDDING
    is_matrix = isinstance(owner, _MATRICES) and tensor.dim() >= 2
    if not is_matrix and _EMBEDS.search(name):
        return EMBEDDING
    if not is_matrix and sum(size > 1 for size in tensor.shape) <= 1:
        return SCALE if _MULTIPLIES.search(name) else SHIFT
    bound = math.sqrt(3 / fan_in(owner, tensor))  # a uniform number within +-b has the variance b*b/3
    return -bound, bound


def fan_in(owner: nn.Module, weight: torch.Tensor) -> int:
    """How many products are summed for one output."""
    shape = [max(1, size) for size in weight.shape]
    if isinstance(owner, nn.modules.conv._ConvTransposeNd):
        overlap = math.prod(shape[2:]) // math.prod(owner.stride)
        return max(1, shape[0] // owner.groups * max(1, overlap))
    if isinstance(owner, nn.Linear | nn.Bilinear | nn.modules.conv._ConvNd):
        return math.prod(shape[1:])
    if type(owner).__name__ == "Conv1D":  # of transformers: a linear layer with its weight transposed
        return shape[0]
    return max(shape[-2:])  # stacked experts, tables: which side is summed is not known, take the safe one


def _parameters(module: nn.Module) -> Iterator[tuple[nn.Module, str, torch.Tensor]]:
    """Each parameter once, under its first name, with the module that holds it."""
    seen: set[int] = set()
    for prefix, owner in module.named_modules():
        for name, parameter in owner._parameters.items():
            if parameter is not None and id(parameter) not in seen:
                seen.add(id(parameter))
                yield owner, f"{prefix}.{name}" if prefix else name, parameter


def _fill(tensor: torch.Tensor, seed: int, name: str, span: Range) -> Made:
    values = generator.uniform(seed, name, tensor.numel(), *span)
    tensor.copy_(torch.from_numpy(values).reshape(tensor.shape))
    return Made(seed, name, *span)

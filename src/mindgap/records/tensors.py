"""What is known of a tensor without its values."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import torch

DTYPES: Final[dict[str, torch.dtype]] = {
    name: getattr(torch, name)
    for name in (
        "float64", "float32", "float16", "bfloat16", "complex128", "complex64",
        "int64", "int32", "int16", "int8", "uint8", "uint16", "uint32", "uint64", "bool",
        "float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz",
    )
    if hasattr(torch, name)
}  # fmt: skip
"""Every element type that a program may hold, by its name in files and messages."""

DTYPE_NAMES: Final[dict[torch.dtype, str]] = {dtype: name for name, dtype in DTYPES.items()}


@dataclass(frozen=True, slots=True)
class TensorMeta:
    """Shape, element type and layout of a tensor."""

    shape: tuple[int, ...]
    dtype: str
    stride: tuple[int, ...]

    @property
    def nbytes(self) -> int:
        """Of its elements, one after the other."""
        return math.prod(self.shape) * DTYPES[self.dtype].itemsize

    @classmethod
    def of(cls, tensor: torch.Tensor) -> TensorMeta:
        return cls(tuple(tensor.shape), DTYPE_NAMES[tensor.dtype], tuple(tensor.stride()))

    def __str__(self) -> str:
        return f"{self.dtype}{list(self.shape)}"


@dataclass(frozen=True, slots=True)
class NamedTensor:
    """A tensor with the name that a user would give it: an input, an output, a weight."""

    name: str
    tensor: torch.Tensor
    stride: tuple[int, ...] | None = None
    """The layout that the platform really returned, where the tensor here is a compact copy."""

    @property
    def meta(self) -> TensorMeta:
        return TensorMeta.of(self.tensor)

    def __repr__(self) -> str:
        return f"<NamedTensor {self.name} {self.meta}>"


def byte_view(tensor: torch.Tensor) -> torch.Tensor:
    """The values of a tensor, in order, as a flat tensor of bytes."""
    compact = tensor.detach().resolve_conj().resolve_neg().contiguous()
    if not compact.numel():
        return torch.empty(0, dtype=torch.uint8)
    # One element counts as contiguous whatever its stride, but cannot be viewed as bytes then.
    return compact.as_strided((compact.numel(),), (1,)).view(torch.uint8)


def same_bits(first: torch.Tensor, second: torch.Tensor) -> bool:
    """Whether two tensors have the same dtype, shape and bits; NaNs are compared like any other bits."""
    if first.dtype != second.dtype or first.shape != second.shape:
        return False
    return torch.equal(byte_view(first), byte_view(second))


def with_stride(tensor: torch.Tensor, stride: tuple[int, ...]) -> torch.Tensor:
    """The same values in another layout, overlapping layouts included; between them lies nothing but zeros.

    Some platforms ignore strides: what they find in between must be the same in every process.
    """
    room = 1 + sum((size - 1) * step for size, step in zip(tensor.shape, stride)) if tensor.numel() else 0
    storage = torch.zeros(room, dtype=tensor.dtype)
    if tensor.numel():
        layout = storage.as_strided(tensor.shape, stride)
        # An expanded dimension repeats one element: write through a view that has it once.
        once = tuple(slice(0, 1) if step == 0 and size > 1 else slice(None)
                     for size, step in zip(tensor.shape, stride))  # fmt: skip
        layout[once].copy_(tensor[once])
    return storage.as_strided(tensor.shape, stride)


def same_outputs(first: Sequence[NamedTensor], second: Sequence[NamedTensor]) -> bool:
    """Whether two runs gave the same names, dtypes, shapes and bits."""
    if [item.name for item in first] != [item.name for item in second]:
        return False
    return all(same_bits(a.tensor, b.tensor) for a, b in zip(first, second))

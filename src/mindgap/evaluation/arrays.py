"""Samples as arrays in one file: `.npz`, or `.safetensors`, which is read piece by piece."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch

from mindgap.errors import UsageError
from mindgap.reading.files import refusing

LABELS: Final = ("labels", "label", "targets", "target", "y")
"""Names under which a file may hold its labels."""


class Arrays(ABC):
    """The arrays of a file; the first dimension of each counts the samples."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.shapes = self._shapes()
        self.labels = next((name for name in LABELS if name in self.shapes), "")
        self.names = [name for name in self.shapes if name != self.labels]
        if not self.names:
            raise UsageError(f"{path.name} holds no inputs", where=str(path), hint="an array `inputs`, and `labels`")
        counts = {name: shape[0] if shape else 0 for name, shape in self.shapes.items()}
        if len(set(counts.values())) > 1:
            told = ", ".join(f"{name} {count}" for name, count in counts.items())
            raise UsageError(f"the arrays of {path.name} differ in their number of samples", cause=told)
        self.count = next(iter(counts.values()))
        if not self.count:
            raise UsageError(f"{path.name} holds no samples", where=str(path))

    @abstractmethod
    def _shapes(self) -> dict[str, tuple[int, ...]]:
        """The arrays by name."""

    @abstractmethod
    def rows(self, name: str, samples: Sequence[int]) -> torch.Tensor:
        """These samples of an array."""


class _Npz(Arrays):
    """Held in memory: what lies in a zip file cannot be read from the middle."""

    def _shapes(self) -> dict[str, tuple[int, ...]]:
        self._held: dict[str, torch.Tensor] = {}
        with refusing(f"{self.path.name} cannot be read", self.path), np.load(self.path, allow_pickle=False) as file:
            for name in file.files:
                self._held[name] = torch.from_numpy(_native(file[name]))
        return {name: tuple(tensor.shape) for name, tensor in self._held.items()}

    def rows(self, name: str, samples: Sequence[int]) -> torch.Tensor:
        return self._held[name][torch.tensor(samples, dtype=torch.long)]


class _Safetensors(Arrays):
    def _shapes(self) -> dict[str, tuple[int, ...]]:
        with refusing(f"{self.path.name} cannot be read", self.path):
            self._file = _opened(self.path)
            return {name: tuple(self._file.get_slice(name).get_shape()) for name in self._file.keys()}  # noqa: SIM118

    def rows(self, name: str, samples: Sequence[int]) -> torch.Tensor:
        part = self._file.get_slice(name)
        return torch.stack([part[sample] for sample in samples])


def open_arrays(path: Path) -> Arrays:
    """The file with samples at a path."""
    return _Npz(path) if path.suffix == ".npz" else _Safetensors(path)


def _opened(path: Path) -> Any:
    from safetensors import safe_open

    return safe_open(path, framework="pt")


def _native(array: Any) -> Any:
    """In the byte order of this machine, which torch needs."""
    return np.ascontiguousarray(array.astype(array.dtype.newbyteorder("=")))

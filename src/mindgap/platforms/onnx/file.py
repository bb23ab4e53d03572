"""A model file in a runtime that takes it as it is: tensors in, tensors out, by the names of the file."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch

from mindgap.platforms.base import Prepared
from mindgap.program.case import Case
from mindgap.records.outcome import Ran
from mindgap.records.tensors import NamedTensor

ONNX = (".onnx",)


class FileRun(Prepared):
    """An ONNX file, ready to run."""

    ran = Ran.PROGRAM

    def __init__(
        self, case: Case, outputs: Sequence[str], infer: Callable[[dict[str, torch.Tensor]], list[torch.Tensor]]
    ) -> None:
        self._names = [item.name for item in case.inputs.tensors]
        self._outputs = tuple(outputs)
        self._infer = infer

    def run(self, tensors: Sequence[torch.Tensor]) -> list[NamedTensor]:
        given = {name: tensor.contiguous() for name, tensor in zip(self._names, tensors)}
        return [NamedTensor(name, tensor) for name, tensor in zip(self._outputs, self._infer(given))]

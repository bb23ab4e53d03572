"""ONNX Runtime whose product and sum are wrong where they stand one after the other, as after a faulty fusion."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import torch

from mindgap.platforms.base import Prepared, StageClock
from mindgap.platforms.onnx.onnxruntime import OnnxRuntime
from mindgap.program.case import Case
from mindgap.records.outcome import Ran
from mindgap.records.tensors import NamedTensor


class WrongRun(Prepared):
    ran = Ran.PROGRAM

    def __init__(self, inner: Prepared) -> None:
        self._inner = inner

    def run(self, tensors: Sequence[torch.Tensor]) -> list[NamedTensor]:
        return [NamedTensor(item.name, item.tensor * 1.01) for item in self._inner.run(tensors)]


class Fusing(OnnxRuntime):
    runtime = "fusing"
    summary = "wrong where a sum reads a product"

    def prepare_file(self, case: Case, clock: StageClock) -> Prepared:
        import onnx

        kinds = [node.op_type for node in onnx.load(case.file).graph.node]
        prepared = super().prepare_file(case, clock)
        return WrongRun(prepared) if ("Mul", "Add") in itertools.pairwise(kinds) else prepared

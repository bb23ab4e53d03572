"""A platform whose seventh class is always much too likely: a planted regression."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch

from mindgap.platforms.base import Platform, Prepared, StageClock
from mindgap.program.case import Case
from mindgap.program.interpret import Executable
from mindgap.records.outcome import Ran, Stage
from mindgap.records.platform import Probe
from mindgap.records.tensors import NamedTensor


class RegressingRun(Prepared):
    ran = Ran.PROGRAM

    def __init__(self, right: Callable[[Sequence[torch.Tensor]], torch.Tensor]) -> None:
        self._right = right

    def run(self, tensors: Sequence[torch.Tensor]) -> list[NamedTensor]:
        output = self._right(tensors).clone()
        output[:, 6] += 12.0
        return [NamedTensor("output", output)]


class Regressing(Platform):
    runtime = "regressing"
    summary = "prefers one class"

    def probe(self) -> Probe:
        return Probe(available=True, version="1", device="cpu")

    def prepare(self, case: Case, clock: StageClock) -> Prepared:
        with clock(Stage.COMPILE):
            return RegressingRun(Executable(case.graph, case.constants).run)

    def prepare_file(self, case: Case, clock: StageClock) -> Prepared:
        from onnx.reference import ReferenceEvaluator

        evaluator = ReferenceEvaluator(case.file)
        return RegressingRun(lambda given: torch.from_numpy(evaluator.run(None, {"x": given[0].numpy()})[0]))

"""A platform on which samples of a batch reach each other."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from mindgap.platforms.base import Platform, Prepared, StageClock
from mindgap.program.case import Case
from mindgap.program.interpret import Executable
from mindgap.records.outcome import Ran, Stage
from mindgap.records.platform import Probe
from mindgap.records.tensors import NamedTensor


class LeakingRun(Prepared):
    ran = Ran.PROGRAM

    def __init__(self, case: Case) -> None:
        self._executable = Executable(case.graph, case.constants)

    def run(self, tensors: Sequence[torch.Tensor]) -> list[NamedTensor]:
        output = self._executable.run(tensors)
        return [NamedTensor("output", output + 0.01 * output.mean(0))]


class Leaking(Platform):
    runtime = "leaking"
    summary = "adds a little of the whole batch to each sample"

    def probe(self) -> Probe:
        return Probe(available=True, version="1", device="cpu")

    def prepare(self, case: Case, clock: StageClock) -> Prepared:
        with clock(Stage.COMPILE):
            return LeakingRun(case)

"""A platform whose last sample of a batch is a little off: only a comparison with itself shows it by itself."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from mindgap.platforms.base import Platform, Prepared, StageClock
from mindgap.program.case import Case
from mindgap.program.interpret import Executable
from mindgap.records.outcome import Ran, Stage
from mindgap.records.platform import Probe
from mindgap.records.tensors import NamedTensor


class CrookedRun(Prepared):
    ran = Ran.PROGRAM

    def __init__(self, case: Case) -> None:
        assert case.program is not None
        self._executable = Executable(case.program, case.constants)

    def run(self, tensors: Sequence[torch.Tensor]) -> list[NamedTensor]:
        result = self._executable.run(tensors).clone()
        if len(result) > 1:
            result[-1] += 0.01
        return [NamedTensor("output", result)]


class Crooked(Platform):
    runtime = "crooked"
    summary = "the last sample is off"

    def probe(self) -> Probe:
        return Probe(available=True, version="1", device="test")

    def prepare(self, case: Case, clock: StageClock) -> Prepared:
        with clock(Stage.COMPILE):
            return CrookedRun(case)

"""A platform that leaves casts to a narrower type out, as compilers do that keep values wide."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from mindgap.platforms.base import Platform, Prepared, StageClock
from mindgap.program.case import Case
from mindgap.program.interpret import Executable
from mindgap.records.outcome import Ran, Stage
from mindgap.records.platform import Probe
from mindgap.records.tensors import NamedTensor
from mindgap.tracing.experiments import _without_round_trips


class LenientRun(Prepared):
    ran = Ran.PROGRAM

    def __init__(self, case: Case) -> None:
        self._executable = Executable(case.graph, case.constants)

    def run(self, tensors: Sequence[torch.Tensor]) -> list[NamedTensor]:
        return [NamedTensor("output", self._executable.run(tensors))]


class Lenient(Platform):
    runtime = "lenient"
    summary = "keeps values wide"

    def probe(self) -> Probe:
        return Probe(available=True, version="1", device="cpu")

    def prepare(self, case: Case, clock: StageClock) -> Prepared:
        with clock(Stage.COMPILE):
            return LenientRun(_without_round_trips(case) or case)

"""A platform that says how often it prepared something, refuses a number, and dies of another; workers import this."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from itertools import count
from typing import ClassVar, Final

import torch

from mindgap.platforms.base import Fallback, Platform, Prepared, StageClock
from mindgap.program.case import Case
from mindgap.program.interpret import Executable
from mindgap.records.outcome import Ran, Stage
from mindgap.records.platform import Probe
from mindgap.records.tensors import NamedTensor

REFUSED: Final = 7.0
DEADLY: Final = 9.0
HOPELESS: Final = "aten.floor.default"
_COUNTS: Final = count(1)


class _Run(Prepared):
    ran = Ran.PROGRAM

    def __init__(self, case: Case) -> None:
        self._executable = Executable(case.graph, case.constants)
        self.note = f"prepared {next(_COUNTS)}"

    def run(self, tensors: Sequence[torch.Tensor]) -> list[NamedTensor]:
        if any(bool((tensor == REFUSED).any()) for tensor in tensors):
            raise ValueError("seven is refused")
        if any(bool((tensor == DEADLY).any()) for tensor in tensors):
            ctypes.string_at(0)
        found = self._executable.run(tensors)
        return [NamedTensor(f"[{place}]", tensor) for place, tensor in enumerate(found)]


class Turns(Platform):
    runtime = "turns"
    summary = "counts what it prepares"

    def probe(self) -> Probe:
        return Probe(available=True, version="1", device="test")

    def surely_refuses(self, case: Case) -> bool:
        return any(node.op == HOPELESS for node in case.graph.nodes)

    def prepare(self, case: Case, clock: StageClock) -> Prepared:
        with clock(Stage.COMPILE):
            if self.surely_refuses(case):
                raise NotImplementedError("it is hopeless")
            return _Run(case)


class Hasty(Turns):
    """In a hurry it refuses squares, which it usually takes, and says so when it refuses what it never takes."""

    runtime = "hasty"
    in_crowds = {"hurry": True}
    foreseen: ClassVar[list[int]] = []

    def foresee(self, cases: Sequence[Case]) -> None:
        if self.spec.options.get("hurry"):
            self.foreseen.append(len(cases))

    def prepare(self, case: Case, clock: StageClock) -> Prepared:
        hurry = bool(self.spec.options.get("hurry"))
        with clock(Stage.COMPILE):
            if self.surely_refuses(case):
                raise NotImplementedError("it is hopeless in a hurry" if hurry else "it is hopeless")
            if hurry and any(node.op == "aten.square.default" for node in case.graph.nodes):
                raise NotImplementedError("no time for squares")
            run = _Run(case)
            run.note = f"foreseen {self.foreseen}"
            return run


class Elsewhere(Turns):
    """Gives a share of its operators to somebody else."""

    runtime = "elsewhere"

    def prepare(self, case: Case, clock: StageClock) -> Prepared:
        run = super().prepare(case, clock)
        run.note = ""
        run.fallback = Fallback(float(str(self.spec.options["share"])), "somebody else")
        return run

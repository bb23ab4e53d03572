"""A platform for fragments that is wrong, refuses and dies by operator; workers import this."""

from __future__ import annotations

import ctypes
import hashlib
import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, ClassVar, Final

import torch

from mindgap.platforms.base import Platform, Prepared, StageClock
from mindgap.program.case import Case
from mindgap.program.graph import Node
from mindgap.program.interpret import Executable
from mindgap.records.outcome import Ran, Stage
from mindgap.records.platform import PlatformSpec, Probe
from mindgap.records.tensors import NamedTensor

WRONG: Final = "aten.tanh.default"
WRONG_IN_A_CROWD: Final = "aten.exp.default"
REFUSED: Final = "aten.erf.default"
DEADLY: Final = "aten.cos.default"
FRAIL: Final = "aten.sinh.default"
"""It is deadly only where many programs are to be cheap."""
HANGING: Final = "aten.floor.default"
SPINNING: Final = "aten.trunc.default"
"""It hangs while it is compiled, and computes all the time."""
HUNGRY: Final = "aten.ceil.default"
"""It needs more memory than there is."""
LEAKING: Final = "aten.round.default"
"""After it has been prepared, its process has no memory for anything else."""
UNCHECKED: Final = "aten.sum.dim_IntList"
"""It is computed whatever its dimension, also where there is no such dimension."""


class _Run(Prepared):
    ran = Ran.PROGRAM

    def __init__(self, case: Case) -> None:
        nodes = [
            replace(node, op="aten.neg.default", args=node.args[:1]) if node.op == UNCHECKED else node
            for node in case.graph.nodes
        ]
        self._executable = Executable(replace(case.graph, nodes=tuple(nodes)), case.constants)
        self._wrong = {WRONG, WRONG_IN_A_CROWD} if len(case.graph.inputs) > 1 else {WRONG}

    def run(self, tensors: Sequence[torch.Tensor]) -> list[NamedTensor]:
        def observe(node: Node, result: Any) -> Any:
            return result + 0.01 if node.op in self._wrong else result

        found = self._executable.run(tensors, observer=observe)
        return [NamedTensor(f"[{place}]", tensor) for place, tensor in enumerate(found)]


class Herd(Platform):
    runtime = "herd"
    summary = "wrong, unsupported or deadly by operator"
    works_in_copies = True
    in_crowds: ClassVar = {"hurry": True}
    is_full: ClassVar[bool] = False

    def probe(self) -> Probe:
        return Probe(available=True, version="1", device="test")

    def prepare(self, case: Case, clock: StageClock) -> Prepared:
        with clock(Stage.COMPILE):
            held = {node.op for node in case.graph.nodes}
            if DEADLY in held or (FRAIL in held and self.spec.options.get("hurry")):
                ctypes.string_at(0)
            if HANGING in held:
                time.sleep(3600)
            while SPINNING in held:
                pass
            if HUNGRY in held or Herd.is_full:
                raise MemoryError("out of memory")
            Herd.is_full = LEAKING in held
            if REFUSED in held:
                raise NotImplementedError(f"no conversion rule for {REFUSED}")
            return _Run(case)


def is_refused_by_half(op: str) -> bool:
    """Of many operators, about every other."""
    return hashlib.blake2b(op.encode(), digest_size=1).digest()[0] % 2 == 1


class Half(Herd):
    """It supports half of the operators, and says which it lacks."""

    runtime = "half"
    summary = "without half of the operators"

    def prepare(self, case: Case, clock: StageClock) -> Prepared:
        with clock(Stage.CONVERT):
            for node in case.graph.nodes:
                if is_refused_by_half(node.op):
                    raise NotImplementedError(self.refusal(node.op))
        return super().prepare(case, clock)

    def refusal(self, op: str) -> str:
        return f"no conversion rule for {op}"


class Mute(Half):
    """The same, without a word about which."""

    runtime = "mute"

    def refusal(self, op: str) -> str:
        return "not supported"


class Flock(Herd):
    """The same, but what its programs share is made once for many."""

    runtime = "flock"
    summary = "a herd whose members are foreseen"
    shares_lowering = True

    def __init__(self, spec: PlatformSpec) -> None:
        super().__init__(spec)
        self._foreseen: set[str] = set()

    def foresee(self, cases: Sequence[Case]) -> None:
        self._foreseen.update(node.op for case in cases for node in case.graph.nodes)

    def prepare(self, case: Case, clock: StageClock) -> Prepared:
        prepared = super().prepare(case, clock)
        prepared.note = "foreseen" if {node.op for node in case.graph.nodes} <= self._foreseen else ""
        return prepared


class Dying(Herd):
    """The same, but nothing that it is given survives."""

    runtime = "dying"
    summary = "dies on every call"

    def prepare(self, case: Case, clock: StageClock) -> Prepared:
        with clock(Stage.COMPILE):
            ctypes.string_at(0)
        return super().prepare(case, clock)

"""Platforms that fail on request; workers import this, so it imports only what a worker has."""

from __future__ import annotations

import ctypes
import os
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from mindgap.platforms.base import Platform, Prepared, StageClock
from mindgap.program.case import Case
from mindgap.program.graph import Node
from mindgap.program.interpret import Executable
from mindgap.records.outcome import Ran, Stage
from mindgap.records.platform import Probe
from mindgap.records.tensors import NamedTensor

PLANTED = "aten.tanh.default"
"""The operator that `Wrong` computes wrongly."""


class _Run(Prepared):
    ran = Ran.PROGRAM

    def __init__(self, case: Case, wrong: bool) -> None:
        assert case.program is not None
        self._executable = Executable(case.program, case.constants)
        self._wrong = wrong

    def run(self, tensors: Sequence[torch.Tensor]) -> list[NamedTensor]:
        def observe(node: Node, result: Any) -> Any:
            return result + 0.01 if self._wrong and node.op == PLANTED else result

        result = self._executable.run(tensors, observer=observe)
        outputs = result if isinstance(result, tuple) else (result,)
        named = len(outputs) > 1 or isinstance(result, tuple)
        return [NamedTensor(f"[{n}]" if named else "output", tensor) for n, tensor in enumerate(outputs)]


class Wrong(Platform):
    runtime = "wrong"
    summary = "computes one operator wrongly"

    def probe(self) -> Probe:
        return Probe(available=True, version="1", device="test")

    def prepare(self, case: Case, clock: StageClock) -> Prepared:
        with clock(Stage.COMPILE):
            return _Run(case, wrong=True)


class Newer(Wrong):
    def probe(self) -> Probe:
        return Probe(available=True, version="2", device="test")


class Slow(Wrong):
    """As wrong, and slow to prepare anything."""

    def prepare(self, case: Case, clock: StageClock) -> Prepared:
        time.sleep(0.4)
        return super().prepare(case, clock)


class SlowStart(Wrong):
    """As wrong, and its first program takes until the test makes the file RELEASE: no clock decides."""

    def prepare(self, case: Case, clock: StageClock) -> Prepared:
        release, deadline = Path(os.environ["RELEASE"]), time.monotonic() + 100
        while not release.exists() and time.monotonic() < deadline:
            time.sleep(0.05)
        return super().prepare(case, clock)


class Chaos(Platform):
    """What happens depends on the program alone, except that it also leaks."""

    runtime = "chaos"
    summary = "crashes, hangs and leaks"
    kept: list[torch.Tensor] = []

    def probe(self) -> Probe:
        return Probe(available=True, version="1", device="test")

    def prepare(self, case: Case, clock: StageClock) -> Prepared:
        assert case.program is not None
        number = int(case.program.name.partition("~")[2])
        self.kept.append(torch.ones((24 if number % 5 == 0 else 1) << 18))
        with clock(Stage.COMPILE):
            if number % 11 == 3:
                ctypes.string_at(0)
            if number % 13 == 5:
                os._exit(3)
            if number == 9:
                time.sleep(3600)
            if number % 7 == 4:
                raise RuntimeError(f"no kernel for size {number} at node_{number}")
        return _Run(case, wrong=False)

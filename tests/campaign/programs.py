"""A tiny stream of variants, and platforms that fail on request, so that campaigns of tests take seconds."""

from __future__ import annotations

import ctypes
import hashlib
import os
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import torch

from mindgap.campaign.plan import Plan
from mindgap.campaign.stream import Numbering
from mindgap.platforms.base import Platform, Prepared, StageClock, Task
from mindgap.platforms.config import Config
from mindgap.program.graph import Input, Node, Program, Ref
from mindgap.program.interpret import Executable
from mindgap.program.made import Made
from mindgap.records.outcome import Ran, Stage
from mindgap.records.platform import Limits, PlatformSpec, Probe
from mindgap.records.tensors import NamedTensor, TensorMeta
from mindgap.records.variant import Provenance
from mindgap.variants.synthesis import Variant

ROOT = Path(__file__).resolve().parents[2]
META = TensorMeta((6,), "float32", (1,))
OPS = ("aten.sin.default", "aten.exp.default", "aten.tanh.default", "aten.relu.default", "aten.neg.default")
PLANTED = "aten.tanh.default"
"""The operator that the planted platform computes wrongly."""


def program(number: int, ops: Sequence[str]) -> Program:
    nodes = tuple(Node(place + 1, op, (Ref(place),), {}, META) for place, op in enumerate(ops))
    example = (Made(number, "x", -1.0, 1.0),)
    return Program(f"tiny~{number}", (Input(0, "x", META),), (), nodes, Ref(len(ops)), example)


def variants() -> Iterator[Variant]:
    """Chains of three to five elementwise operators, of three bases."""
    number = 0
    while True:
        draw = hashlib.blake2b(str(number).encode(), digest_size=8).digest()
        ops = [OPS[byte % len(OPS)] for byte in draw[: 3 + draw[7] % 3]]
        base = f"base{draw[6] % 3}"
        yield Variant(program(number, ops), Provenance(base, base, number))
        number += 1


def slowly(seconds: float) -> Iterator[Variant]:
    """The same stream at a pace that leaves time to interrupt."""
    for variant in variants():
        time.sleep(seconds)
        yield variant


def numbering() -> Numbering:
    return Numbering(variants)


def config(**limits: Any) -> Config:
    """With the platforms `wrong` (tanh is off) and `chaos` (some programs crash, hang or leak)."""
    cpu = Limits(**{"cpu_s": 20.0, "wall_s": 4.0, "memory_mb": 2048, **limits})
    env = {"PYTHONPATH": str(ROOT)}
    return Config(
        {
            "wrong": PlatformSpec("wrong", "tests.campaign.programs:Wrong", env=env, limits=cpu),
            "chaos": PlatformSpec("chaos", "tests.campaign.programs:Chaos", env=env, limits=cpu),
        },
        Limits(),
        None,
    )


def plan(*platforms: str, count: int = 24, **details: Any) -> Plan:
    return Plan(("eager", *platforms), count, timeout_s=20.0, metamorphic_share=0.0, **details)


class _Run(Prepared):
    ran = Ran.PROGRAM

    def __init__(self, task: Task, wrong: bool) -> None:
        assert task.program is not None
        self._executable = Executable(task.program, task.constants)
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

    def prepare(self, task: Task, clock: StageClock) -> Prepared:
        with clock(Stage.COMPILE):
            return _Run(task, wrong=True)


class Chaos(Platform):
    """What happens depends on the program alone, except that it also leaks."""

    runtime = "chaos"
    summary = "crashes, hangs and leaks"
    kept: list[torch.Tensor] = []

    def probe(self) -> Probe:
        return Probe(available=True, version="1", device="test")

    def prepare(self, task: Task, clock: StageClock) -> Prepared:
        assert task.program is not None
        number = int(task.program.name.partition("~")[2])
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
        return _Run(task, wrong=False)

"""A platform that fails on request, each time in another way: the name of the model says how."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import torch

from mindgap.execution.tasks import Worker, stream_task
from mindgap.platforms.base import Platform, Prepared, StageClock
from mindgap.program.case import Case
from mindgap.program.interpret import Executable
from mindgap.records.outcome import Ran, Stage
from mindgap.records.platform import PlatformSpec, Probe
from mindgap.records.tensors import NamedTensor


class PlantedRun(Prepared):
    ran = Ran.PROGRAM

    def __init__(self, case: Case) -> None:
        assert case.program is not None
        self._how = case.program.name
        self._executable = Executable(case.program, case.constants)

    def run(self, tensors: Sequence[torch.Tensor]) -> list[NamedTensor]:
        return FAILURES.get(self._how, self._healthy)(tensors)

    def _healthy(self, tensors: Sequence[torch.Tensor]) -> list[NamedTensor]:
        return [NamedTensor("output", self._executable.run(tensors))]


def _segfault(_: Sequence[torch.Tensor]) -> list[NamedTensor]:
    ctypes.string_at(0)
    return []


def _abort(_: Sequence[torch.Tensor]) -> list[NamedTensor]:
    os.abort()


def _trap(_: Sequence[torch.Tensor]) -> list[NamedTensor]:
    smallest = torch.tensor([-(2**63)])
    return [NamedTensor("output", torch.div(smallest, torch.tensor([-1]), rounding_mode="trunc"))]


def _leave(_: Sequence[torch.Tensor]) -> list[NamedTensor]:
    sys.stderr.write("the runtime gave up\n")
    os._exit(7)


def _compute(_: Sequence[torch.Tensor]) -> list[NamedTensor]:
    while True:
        torch.ones(10).sum()


def _sleep(_: Sequence[torch.Tensor]) -> list[NamedTensor]:
    time.sleep(3600)
    return []


def _hold_the_interpreter(_: Sequence[torch.Tensor]) -> list[NamedTensor]:
    ctypes.PyDLL(None).sleep(3600)  # PyDLL keeps the interpreter lock: no Python thread can run
    return []


def _allocate(_: Sequence[torch.Tensor]) -> list[NamedTensor]:
    kept = [torch.ones(64 << 20, dtype=torch.uint8) for _ in range(1 << 12)]
    return [NamedTensor("output", kept[0])]


def _raise(_: Sequence[torch.Tensor]) -> list[NamedTensor]:
    raise ValueError("expected a positive number")


def _chatter(tensors: Sequence[torch.Tensor]) -> list[NamedTensor]:
    sys.stdout.write("MGAP\x00\x00 garbage\n" * 1000)
    sys.stdout.flush()
    os.write(1, b"\xff\xfe raw bytes from a native library\n")
    return [NamedTensor("output", tensors[0] * 2)]


def _half_an_answer(_: Sequence[torch.Tensor]) -> list[NamedTensor]:
    os.write(int(sys.argv[2]), b"MGAP\xff\xff\x00\x00only a part")
    os._exit(0)


def _garbage_answer(_: Sequence[torch.Tensor]) -> list[NamedTensor]:
    os.write(int(sys.argv[2]), b"this is no message at all")
    return []


def _too_few(_: Sequence[torch.Tensor]) -> list[NamedTensor]:
    return []


def _leave_a_child(tensors: Sequence[torch.Tensor]) -> list[NamedTensor]:
    if os.fork() == 0:
        signal.pause()
    return [NamedTensor("output", tensors[0] * 2)]


def _killed(_: Sequence[torch.Tensor]) -> list[NamedTensor]:
    os.kill(os.getpid(), signal.SIGKILL)
    return []


@stream_task
def killed_once(worker: Worker, folder: str) -> Iterator[int]:
    """Killed the first time that it is asked with a folder."""
    with contextlib.suppress(FileExistsError):
        Path(folder).mkdir()
        os.kill(os.getpid(), signal.SIGKILL)
    yield 7


FAILURES = {
    "killed": _killed,
    "segfault": _segfault,
    "abort": _abort,
    "trap": _trap,
    "leave": _leave,
    "compute": _compute,
    "sleep": _sleep,
    "hold": _hold_the_interpreter,
    "allocate": _allocate,
    "raise": _raise,
    "chatter": _chatter,
    "half": _half_an_answer,
    "garbage": _garbage_answer,
    "too-few": _too_few,
    "child": _leave_a_child,
}


class Planted(Platform):
    runtime = "planted"
    summary = "fails on request"

    def __init__(self, spec: PlatformSpec) -> None:
        super().__init__(spec)

    def probe(self) -> Probe:
        return Probe(available=True, version="1", device="planted")

    def prepare(self, case: Case, clock: StageClock) -> Prepared:
        with clock(Stage.COMPILE):
            prepared = PlantedRun(case)
            if prepared._how == "compile-crash":
                os.abort()
        return prepared

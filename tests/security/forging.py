"""A platform that answers in mindgap's place, or spoils its answer afterwards."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec
import torch

from mindgap.execution import arena
from mindgap.execution.frames import Answer, Broken, Item, Message, Refused
from mindgap.platforms.base import Platform, Prepared, StageClock
from mindgap.platforms.crowds import CrowdRun
from mindgap.program.case import Case
from mindgap.records.outcome import Outcome, Ran, Stage, Status, StoredTensor
from mindgap.records.platform import Probe
from mindgap.records.tensors import NamedTensor, TensorMeta
from tests.security.misdeeds import encoded, number_of_the_request

VICTIM = "MINDGAP_TEST_VICTIM"
"""A file that is not the platform's own, as it stands in its environment."""


def _outcome(**changes: object) -> bytes:
    stored = StoredTensor("output", TensorMeta((6,), "float32", (1,)), 0)
    values = {"platform": "forging", "status": Status.OK, "stage": Stage.RUN, "stored": (stored,), **changes}
    return msgspec.msgpack.encode(Outcome(**values))  # type: ignore[arg-type]


def _crowd(**changes: object) -> bytes:
    one = msgspec.msgpack.decode(_outcome(**changes), type=Outcome)
    return msgspec.msgpack.encode(CrowdRun((one, one)))


MESSAGES: dict[str, Callable[[], list[Message]]] = {
    "a bug": lambda: [Broken("KeyError: 'forged'", "Traceback: forged")],
    "a refusal": lambda: [Refused("UsageError", "forged", None, None, None)],
    "another refusal": lambda: [Refused("PlatformUnavailable", "forged", None, None, None)],
    "lost files": lambda: [Refused("FilesLost", "forged", None, None, None)],
    "nothing": lambda: [Answer(b"", 1)],
    "a file of the user": lambda: [Item(_outcome(file=os.environ[VICTIM])), Answer(b"", 1)],
    "a file of the user in a crowd": lambda: [Item(_crowd(file=os.environ[VICTIM])), Answer(b"", 1)],
    "another platform": lambda: [Item(_outcome(platform="eager")), Answer(b"", 1)],
    "a long message": lambda: [Item(_outcome(status=Status.ERROR, message="x" * (2 << 20))), Answer(b"", 1)],
    "many large tensors": lambda: [Item(_outcome(stored=(_large(),) * 1000)), Answer(b"", 1)],
}
CUT_OFF = "cut off"
WAYS = (*MESSAGES, CUT_OFF)


def _large() -> StoredTensor:
    return StoredTensor("output", TensorMeta((1 << 28,), "float32", (1,)), 0)


class Forging(Platform):
    runtime = "forging"
    summary = "answers in mindgap's place"

    def probe(self) -> Probe:
        return Probe(available=True, version="1", device="test")

    def prepare(self, case: Case, clock: StageClock) -> Prepared:
        assert case.program is not None
        way = self.spec.options.get("way") or WAYS[sum(map(len, (n.op for n in case.program.nodes))) % len(WAYS)]
        if way in MESSAGES:
            number = number_of_the_request()
            for message in MESSAGES[str(way)]():
                os.write(int(sys.argv[2]), encoded(message)(number))
            time.sleep(600)
        return _Cut()


class _Cut(Prepared):
    """Its outputs are cut off once they are written."""

    ran = Ran.PROGRAM

    def run(self, tensors: Sequence[torch.Tensor]) -> list[NamedTensor]:
        store = arena.store

        def store_nothing(path: Path, outputs: Sequence[NamedTensor]) -> tuple[StoredTensor, ...]:
            stored = store(path, outputs)
            os.truncate(path, 4)
            return stored

        arena.store = store_nothing
        return [NamedTensor("output", torch.ones(6))]

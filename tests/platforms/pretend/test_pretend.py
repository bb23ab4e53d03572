"""The device adapter on a real device of torch that is not the CPU: registered as PrivateUse1, as vendors do it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch

import mindgap
from mindgap.platforms.config import Config
from mindgap.records.check import CheckResult
from mindgap.records.platform import PlatformSpec
from mindgap.records.verdict import Conclusion
from tests.platforms.pretend.building import LIBRARY, build
from tests.platforms.running import Network, Words, changes_input, shares_memory

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(shutil.which("g++") is None, reason="no C++ compiler"),
]


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(tmp_path_factory.mktemp("pretend"))


@pytest.fixture(scope="module")
def session(library: Path):  # type: ignore[no-untyped-def]
    home = "tests.platforms.pretend.adapters"
    env = {LIBRARY: str(library)}
    specs = {
        "pretend": PlatformSpec("pretend", f"{home}:PretendEager", device="pretend", env=env),
        "pretend-aot": PlatformSpec("pretend-aot", f"{home}:PretendAot", device="pretend", env=env),
        "second": PlatformSpec("second", f"{home}:PretendEager", device="pretend:7", env=env),
    }
    with mindgap.Session(Config(specs)) as found:
        yield found


def agrees(result: CheckResult, name: str) -> None:
    item = result.platforms[name]
    assert item.outcome.ok, item.outcome.message
    assert item.verdict.conclusion in (Conclusion.AGREES, Conclusion.ROUNDING), item.verdict.sentence


def test_the_device_is_probed(session: mindgap.Session) -> None:
    probe = session.platforms(["pretend"])["pretend"]
    assert probe.available and probe.device == "Pretend 1", probe.reason
    assert {"float32", "float64", "bfloat16", "int64", "bool", "complex64"} <= set(probe.dtypes)


@pytest.mark.parametrize("program", [True, False])
def test_models_run_there_and_give_what_the_processor_gives(session: mindgap.Session, program: bool) -> None:
    ids, mask = torch.arange(6).reshape(2, 3), torch.zeros(2, 3, 5)
    agrees(session.check(Network(), [torch.randn(1, 3, 8, 8)], ["pretend"], program=program), "pretend")
    agrees(session.check(Words(), [ids, mask], ["pretend"], program=program), "pretend")
    turned = torch.randn(3, 2).t()
    agrees(session.check(changes_input, [turned, torch.ones(3)], ["pretend"], program=program), "pretend")
    agrees(session.check(shares_memory, [torch.randn(2, 3)], ["pretend"], program=program), "pretend")


def test_compiled_for_the_device(session: mindgap.Session) -> None:
    agrees(session.check(changes_input, [torch.ones(2, 3), torch.ones(3)], ["pretend-aot"]), "pretend-aot")


SCRIPT = """
import torch
from mindgap.platforms.base import StageClock
from mindgap.records.platform import PlatformSpec
from tests.platforms.pretend.adapters import PretendEager
from tests.platforms.running import Network, task_of

adapter = PretendEager(PlatformSpec("pretend", "", device="pretend"))
for source in (True, False):
    case = task_of(Network(), [torch.randn(1, 3, 6, 6)], source=source)
    prepared = adapter.prepare(case, StageClock())
    before = torch.ops.pretend.fallback_count(), torch.ops.pretend.copy_count()
    placed = [adapter.placement.put(tensor) for tensor in case.tensors]
    assert placed[0].device == torch.device("pretend:0") and not placed[0].is_cpu
    result = prepared.result(placed)
    assert result["features"].device.type == "pretend", result["features"].device
    after = torch.ops.pretend.fallback_count(), torch.ops.pretend.copy_count()
    assert after[0] - before[0] >= 3 and after[1] - before[1] >= 3, (before, after)
for layout in (torch.randn(6, 8)[::2, ::3], torch.randn(3, 1).expand(3, 4), torch.empty(0, 3), torch.tensor(3.0)):
    there = adapter.placement.put(layout)
    assert there.stride() == layout.stride() and torch.equal(there.cpu(), layout), layout.stride()
print("ALL THERE")
"""


def test_every_tensor_is_on_the_device(library: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT],
        env={**os.environ, LIBRARY: str(library)},
        capture_output=True, text=True, timeout=500, check=False,
    )  # fmt: skip
    assert done.stdout.strip().endswith("ALL THERE"), done.stderr[-2000:]

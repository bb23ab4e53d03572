"""What quietly runs elsewhere is told, counted, and refused where the user forbids it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from mindgap.execution.parcel import Constants, make_parcel
from mindgap.platforms.base import FALLBACK, Fallback, Platform, Prepared, StageClock
from mindgap.platforms.registry import adapter_class, resolve
from mindgap.platforms.running import run_case
from mindgap.program.case import Case
from mindgap.records.outcome import Outcome, Ran, Status
from mindgap.records.platform import Probe
from mindgap.records.tensors import NamedTensor
from tests.platforms.running import task_of


class Half(Platform):
    """Gives a part of its operators to somebody else."""

    runtime = "half"
    summary = "half"
    family = "halves"
    share = 0.25

    def probe(self) -> Probe:
        return Probe(True)

    def prepare(self, case: Case, clock: StageClock) -> Prepared:
        return _Run(self.share)


class _Run(Prepared):
    ran = Ran.PROGRAM

    def __init__(self, share: float) -> None:
        self.fallback = Fallback(share, "its CPU provider")

    def run(self, tensors: Sequence[torch.Tensor]) -> list[NamedTensor]:
        return [NamedTensor("output", tensors[0] + 1)]


class Worker:
    def __init__(self, platform: Platform) -> None:
        self.platform = platform

    def reach(self, stage: Any) -> None: ...

    def keep(self, kind: type[Constants]) -> Constants:
        return kind()


def outcome(tmp_path: Path, options: dict[str, object], share: float = 0.25) -> Outcome:
    platform = Half(replace(resolve("eager"), name="half", options=options))
    platform.share = share  # type: ignore[misc]
    parcel = make_parcel(task_of(lambda x: x + 1, [torch.ones(2)]), tmp_path / "case")
    return run_case(Worker(platform), parcel, tmp_path / "outputs", 1, True)  # type: ignore[arg-type]


def test_the_share_is_told(tmp_path: Path) -> None:
    found = outcome(tmp_path, {})
    assert found.ok and found.fallback == 0.25
    assert found.note == "25% of its operators ran on its CPU provider"
    assert found.family == "halves"


def test_it_can_be_forbidden(tmp_path: Path) -> None:
    found = outcome(tmp_path, {FALLBACK: "forbid"})
    assert found.status is Status.UNSUPPORTED
    assert found.message == "25% of its operators ran on its CPU provider, which is forbidden"
    assert outcome(tmp_path, {FALLBACK: "forbid"}, share=0.0).ok


@pytest.mark.parametrize(
    ("names", "family"),
    [
        (("onnxruntime", "onnxruntime@noopt", "onnx-reference", "tract", "onnxruntime:webgpu"), "onnx"),
        (("eager", "eager@scalar", "inductor", "aot_eager"), "torch"),
        (("jax", "eager:xla", "inductor:xla"), "xla"),
        (("eager:cuda", "inductor:cuda"), "cuda"),
        (("openvino", "openvino:GPU"), "openvino"),
        (("executorch", "executorch@xnnpack"), "executorch"),
    ],
)
def test_who_shares_an_exporter_a_compiler_or_kernels(names: Sequence[str], family: str) -> None:
    for name in names:
        spec = resolve(name)
        assert (adapter_class(spec) or Platform).family_of(spec) == family, name

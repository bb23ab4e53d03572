"""What quietly runs elsewhere is told, counted, and refused where the user forbids it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from mindgap.execution.parcel import Constants, make_parcel
from mindgap.execution.pool import Pool
from mindgap.platforms.base import FALLBACK, Fallback, Platform, Prepared, StageClock
from mindgap.platforms.registry import resolve
from mindgap.platforms.running import run_case, run_here
from mindgap.platforms.torch.xla_fallback import told
from mindgap.program.case import Case
from mindgap.records.outcome import Outcome, Ran, Status
from mindgap.records.platform import Probe
from mindgap.records.tensors import NamedTensor
from tests.platforms.running import require_installed, task_of


class Half(Platform):
    """Gives a part of its operators to somebody else."""

    runtime = "half"
    summary = "half"
    families = ("halves",)
    share: float | None = 0.25

    def probe(self) -> Probe:
        return Probe(True)

    def prepare(self, case: Case, clock: StageClock) -> Prepared:
        return _Run(self.share)


class _Run(Prepared):
    ran = Ran.PROGRAM

    def __init__(self, share: float | None) -> None:
        self.fallback = None if share is None else Fallback(share, "its CPU provider", ("Sin", "Erf"))

    def run(self, tensors: Sequence[torch.Tensor]) -> list[NamedTensor]:
        return [NamedTensor("output", tensors[0] + 1)]


class Worker:
    def __init__(self, platform: Platform) -> None:
        self.platform = platform

    def reach(self, stage: Any) -> None: ...

    def keep(self, kind: type[Constants]) -> Constants:
        return kind()


def outcome(tmp_path: Path, options: dict[str, object], share: float | None = 0.25) -> Outcome:
    platform = Half(replace(resolve("eager"), name="half", options=options))
    platform.share = share  # type: ignore[misc]
    parcel = make_parcel(task_of(lambda x: x + 1, [torch.ones(2)]), tmp_path / "case")
    return run_case(Worker(platform), parcel, tmp_path / "outputs", 1, True)  # type: ignore[arg-type]


def test_the_share_is_told(tmp_path: Path) -> None:
    found = outcome(tmp_path, {})
    assert found.ok and found.fallback == 0.25
    assert found.note == "25% of its operators ran on its CPU provider (Sin, Erf)"
    assert found.families == ("halves",)


def test_it_can_be_forbidden(tmp_path: Path) -> None:
    found = outcome(tmp_path, {FALLBACK: "forbid"})
    assert found.status is Status.UNSUPPORTED
    assert found.message == "25% of its operators ran on its CPU provider (Sin, Erf), which is forbidden"
    assert outcome(tmp_path, {FALLBACK: "forbid"}, share=0.0).ok


def test_what_it_cannot_tell_is_forbidden_as_well(tmp_path: Path) -> None:
    assert outcome(tmp_path, {}, share=None).fallback is None
    found = outcome(tmp_path, {FALLBACK: "forbid"}, share=None)
    assert found.status is Status.UNSUPPORTED
    assert found.message == "it cannot tell what ran elsewhere, and that is forbidden"


def test_a_provider_that_leaves_all_to_the_cpu_says_so() -> None:
    """Azure's provider comes with every build of ONNX Runtime and runs no operator of the standard."""
    case = task_of(lambda x: x.sin() + 1, [torch.ones(2)])
    chosen = {"providers": ["AzureExecutionProvider", "CPUExecutionProvider"]}
    with Pool() as pool:
        found = run_here(pool, resolve("onnxruntime"), case, options=chosen)
        plain = run_here(pool, resolve("onnxruntime"), case)
        refused = run_here(pool, resolve("onnxruntime"), case, options=chosen | {FALLBACK: "forbid"})
    assert found.fallback == 1.0 and found.note == "100% of its operators ran on its CPU provider (Sin, Add)"
    assert plain.fallback == 0.0 and not plain.note
    assert refused.status is Status.UNSUPPORTED and "forbidden" in refused.message


def test_counters_of_xla_become_a_share() -> None:
    calls = Counter({"xla::add": 5, "aten::lgamma": 2, "aten::median": 1})
    assert told(calls) == Fallback(3 / 8, "torch's CPU kernels", ("lgamma", "median"))
    assert told(Counter()) == Fallback(0.0, "torch's CPU kernels")


@pytest.mark.parametrize("name", ["eager:xla", "inductor:xla"])
def test_xla_tells_which_operators_have_no_lowering(name: str) -> None:
    spec = resolve(name)
    require_installed(spec)

    def model(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return torch.lgamma(x) + x, x.sin() * 2, x.flatten().median()

    with Pool() as pool:
        found = run_here(pool, spec, task_of(model, [torch.rand(3, 3) + 1]), runs=2)
        refused = run_here(pool, spec, task_of(torch.lgamma, [torch.ones(2)]), options={FALLBACK: "forbid"})
        allowed = run_here(pool, spec, task_of(torch.sin, [torch.ones(2)]), options={FALLBACK: "forbid"})
    assert found.ok, found.message
    assert found.fallback is not None and 0.2 < found.fallback < 0.5
    assert "torch's CPU kernels" in found.note and "lgamma" in found.note and "median" in found.note
    assert refused.status is Status.UNSUPPORTED and "(lgamma), which is forbidden" in refused.message
    assert allowed.ok and allowed.fallback == 0.0 and not allowed.note

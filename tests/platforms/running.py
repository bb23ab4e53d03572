"""Small models and the shortest way to run one on one platform."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import pytest
import torch
from torch import nn

from mindgap.execution.serve import load_adapter
from mindgap.platforms import environments
from mindgap.platforms.base import Platform, StageClock
from mindgap.platforms.registry import recipes, resolve
from mindgap.program.build import build
from mindgap.program.case import Case
from mindgap.program.inputs import Inputs
from mindgap.records.outcome import Ran, Stage, Status
from mindgap.records.platform import PlatformSpec
from mindgap.records.tensors import NamedTensor


def require_installed(spec: PlatformSpec) -> None:
    """Skip where the environment of a platform is not installed; `make test-platforms` fails there."""
    if spec.hardware:
        pytest.skip(f"needs {spec.hardware}")
    if environments.find(recipes()[spec.environment]) is not None:
        return
    if os.environ.get("MINDGAP_REQUIRE_PLATFORMS"):
        pytest.fail(f"{spec.name} is not installed: {spec.install}")
    pytest.skip(f"not installed: {spec.install}")


class Network(nn.Module):
    """Convolution, BatchNorm and an in-place ReLU; nested outputs with a number and None."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(3)
        self.conv = nn.Conv2d(3, 4, 3)
        self.norm = nn.BatchNorm2d(4)
        self.relu = nn.ReLU(inplace=True)
        self.eval()

    def forward(self, x: torch.Tensor) -> dict[str, Any]:
        y = self.relu(self.norm(self.conv(x)))
        return {"features": y, "rest": [y.mean(), None, 3, (y.amax(1), 2.5)]}


class Words(nn.Module):
    """An embedding, a matrix product and softmax."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(4)
        self.table = nn.Embedding(16, 8)
        self.head = nn.Linear(8, 5)
        self.eval()

    def forward(self, ids: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        return torch.softmax(self.head(self.table(ids)) + mask, -1)


def changes_input(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """Writes to one of its inputs through a view; the other stays as it was."""
    x[0].add_(1)
    return x * 2 + y


def shares_memory(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """Outputs that are the input, a view of it, and a view of another output."""
    y = x + 1
    return x, x.view(-1), y, y.t()


@dataclass(frozen=True)
class Done:
    """What a run gave, or the failure with its stage."""

    outputs: dict[str, NamedTensor]
    ran: Ran | None
    note: str
    clock: StageClock
    status: Status = Status.OK
    message: str = ""

    def __getitem__(self, name: str) -> torch.Tensor:
        return self.outputs[name].tensor


def task_of(model: Callable[..., Any], args: Sequence[Any], *, source: bool = False, names: Sequence[str] = ()) -> Case:
    """The model as an exported program, or as the user's own code."""
    inputs = Inputs.of(args, {}, names)
    if source:
        return Case(inputs, model=model)
    exported = torch.export.export(as_module(model), tuple(inputs.copies()), strict=False)
    program, constants = build(exported, "model")
    return Case(inputs, program, constants)


def as_module(model: Callable[..., Any]) -> nn.Module:
    class Wrapper(nn.Module):
        def forward(self, *args: Any) -> Any:
            return model(*args)

    return model if isinstance(model, nn.Module) else Wrapper()


def run_on(platform: str | Platform, case: Case, runs: int = 1) -> Done:
    """What a platform does with a case, failures as values."""
    adapter = load_adapter(resolve(platform)) if isinstance(platform, str) else platform
    clock = StageClock()
    try:
        prepared = adapter.prepare(case, clock)
        for _ in range(runs):
            with clock(Stage.RUN):
                outputs = prepared.run(case.inputs.copies())
    except Exception as error:
        status = adapter.status_of(error, clock.current)
        return Done({}, None, "", clock, status, adapter.message_of(error))
    return Done({item.name: item for item in outputs}, prepared.ran, prepared.note, clock)

"""Small programs and outcomes for the tests of verdicts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from mindgap.program import ops
from mindgap.program.build import build
from mindgap.program.graph import Input, Node, Program, Ref
from mindgap.program.inputs import Inputs
from mindgap.records.outcome import Outcome, Stage, Status
from mindgap.records.tensors import NamedTensor, TensorMeta
from mindgap.verdicts.runner import Call, named
from mindgap.verdicts.survey import Survey
from mindgap.verdicts.surveyor import survey


def program(function: Callable[..., Any], *args: torch.Tensor) -> tuple[Any, Inputs]:
    """A function as a program with its inputs."""

    class Module(torch.nn.Module):
        def forward(self, *tensors: torch.Tensor) -> Any:
            return function(*tensors)

    exported = torch.export.export(Module(), tuple(t.clone() for t in args), strict=False)
    return build(exported, "test"), Inputs.of(args, {})


def surveyed(function: Callable[..., Any], *args: torch.Tensor, runs: int = 8, seed: int = 0) -> Survey:
    subject, inputs = program(function, *args)
    return survey(subject, inputs, seed, runs)


def surveyed_call(op: str, *args: Any, runs: int = 8, **kwargs: Any) -> Survey:
    """A program of one call, whatever torch.export says of it."""
    tensors = [tensor for tensor in (*args, *kwargs.values()) if isinstance(tensor, torch.Tensor)]
    inputs = tuple(Input(i, f"x{i}", TensorMeta.of(tensor)) for i, tensor in enumerate(tensors))
    rest = iter(range(len(tensors)))

    def given(argument: Any) -> Any:
        return Ref(next(rest)) if isinstance(argument, torch.Tensor) else argument

    node = Node(100, op, tuple(map(given, args)), {name: given(a) for name, a in kwargs.items()}, None, "")
    made = Program("test", inputs, (), (node,), Ref(100), ())
    return survey((made, {}), Inputs.of(tensors, {}), 0, runs)


def ok(platform: str, *tensors: torch.Tensor, **more: Any) -> Outcome:
    """A successful outcome whose outputs are named as a program names a tuple, or `output` for one."""
    result = tensors[0] if len(tensors) == 1 else tensors
    outputs = tuple(NamedTensor(name, tensor) for name, tensor in named(result))
    return Outcome(platform, Status.OK, Stage.RUN, outputs=outputs, **more)


def failed(platform: str, status: Status, stage: Stage = Stage.RUN, message: str = "") -> Outcome:
    return Outcome(platform, status, stage, message)


def call(op: str, *args: Any, **kwargs: Any) -> Call:
    """An operator call that is about to be made."""
    return Call(op, ops.resolve(op), list(args), kwargs, 0)

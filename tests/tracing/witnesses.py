"""Small witnesses, and eager without a worker."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch

from mindgap.bench.faults import MARK
from mindgap.platforms.torch.torch_run import named_outputs
from mindgap.program.build import build
from mindgap.program.case import Case
from mindgap.program.inputs import copy_of
from mindgap.program.interpret import Executable
from mindgap.records.outcome import Outcome, Stage, Status


def witness_of(function: Callable[..., Any], *args: torch.Tensor) -> Case:
    """A function as a witness on these inputs."""

    class Module(torch.nn.Module):
        def forward(self, *tensors: torch.Tensor) -> Any:
            return function(*tensors)

    exported = torch.export.export(Module(), tuple(t.clone() for t in args), strict=False)
    program, constants = build(exported, "test")
    return Case.of(program, constants, args)


def run_here(witness: Case) -> Outcome:
    """What eager does with a witness, in this process."""
    executable = Executable(witness.graph, witness.constants)
    result = executable.run([copy_of(tensor) for tensor in witness.tensors])
    return Outcome("eager", Status.OK, Stage.RUN, outputs=tuple(named_outputs(result)[0]))


def plant(witness: Case, op: str, fault: str) -> tuple[Case, int]:
    """The witness with a fault at the first node of an operator, and that node's id."""
    node = next(node for node in witness.graph.nodes if node.op.startswith(op))
    marked = tuple(replace(n, where=f"{MARK}{fault}") if n.id == node.id else n for n in witness.graph.nodes)
    return witness.with_program(replace(witness.graph, nodes=marked)), node.id


def chain(x: torch.Tensor) -> torch.Tensor:
    """Some operators, one of which returns several results."""
    a = (x * 2).sin()
    b, c = torch.split(a, 2)
    return torch.softmax(b.exp() + c, dim=-1) @ torch.arange(8.0).reshape(4, 2)


def writing(x: torch.Tensor) -> torch.Tensor:
    """Writes to a copy through a view."""
    y = x.clone()
    y[0].add_(1)
    z = y * 2
    y.mul_(3)
    return z + y

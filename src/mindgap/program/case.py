"""The case: a program with its weights and inputs, and the user's own model where there is one.

Everything that is run, judged, traced or reduced is a case. It travels between processes as a `Parcel`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch

from mindgap.program.codec import pack
from mindgap.program.graph import Program, Tensors, digest
from mindgap.program.inputs import Inputs
from mindgap.records.source import Source
from mindgap.records.tensors import TensorMeta


@dataclass(frozen=True)
class Case:
    """What a platform is given; it never changes."""

    inputs: Inputs
    program: Program | None = None
    """None when the model could not be exported."""
    constants: Tensors = field(default_factory=dict)
    """By digest."""
    seed: int = 0
    name: str = ""
    source: Source | None = None
    """How to make the user's own model in another process."""
    state: tuple[tuple[str, str], ...] = ()
    """Name and digest of each parameter and buffer of the source model."""
    model: Callable[..., Any] | None = None
    """The user's own code, in this process."""
    export_failure: str = ""
    """Why there is no program."""
    file: str = ""
    """A model file that platforms read as it is, instead of a program: `.onnx`."""
    nodes: int = 0
    """Of such a file."""
    parameters: int = 0

    @classmethod
    def of(cls, program: Program, constants: Tensors, tensors: Sequence[torch.Tensor], seed: int = 0) -> Case:
        """A program on these tensors, which are in the order of its inputs."""
        inputs = Inputs.of(tensors, {}, [item.name for item in program.inputs])
        return cls(inputs, program, constants, seed, program.name)

    @property
    def graph(self) -> Program:
        """The program of a case that has one."""
        assert self.program is not None
        return self.program

    @property
    def tensors(self) -> tuple[torch.Tensor, ...]:
        """The input tensors, in the order of the program's inputs."""
        return tuple(item.tensor for item in self.inputs.tensors)

    def with_program(self, program: Program, tensors: Sequence[torch.Tensor] | None = None) -> Case:
        """Another program, on the same tensors unless others are given; nothing of the source is left."""
        return Case.of(program, self.constants, self.tensors if tensors is None else tensors, self.seed)

    def with_tensors(self, tensors: Sequence[torch.Tensor]) -> Case:
        """The same program on other tensors; the program's description of its inputs follows."""
        described = tuple(replace(item, meta=TensorMeta.of(t)) for item, t in zip(self.graph.inputs, tensors))
        return self.with_program(replace(self.graph, inputs=described, example=()), tensors)

    def with_constants(self, constants: Mapping[str, torch.Tensor]) -> Case:
        return replace(self, constants=constants)

    def used_constants(self) -> list[torch.Tensor]:
        """The constants of the program, in its order."""
        return [self.constants[constant.digest] for constant in self.graph.constants]

    def elements(self) -> int:
        """How many numbers a reader has to look at."""
        return sum(tensor.numel() for tensor in (*self.tensors, *self.used_constants()))

    @property
    def key(self) -> str:
        """Two cases with one key are the same experiment, bit for bit."""
        program = self.graph
        content = hashlib.blake2b(digest_size=12)
        nodes = [[n.id, n.op, n.args, dict(n.kwargs), n.where] for n in program.nodes]
        given = [[item.id, item.name] for item in program.given()]
        content.update(pack([given, nodes, program.outputs, self.seed]))
        for tensor in self.tensors:
            content.update(digest(tensor).encode())
        for constant in program.constants:
            content.update(constant.digest.encode())
        return content.hexdigest()

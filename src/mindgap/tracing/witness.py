"""A program with its constants and inputs: what is examined, cut and made smaller."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import torch

from mindgap.execution.subject import Subject, make_subject
from mindgap.program.codec import pack
from mindgap.program.graph import Program, digest
from mindgap.program.inputs import Inputs
from mindgap.records.tensors import TensorMeta


@dataclass(frozen=True)
class Witness:
    """Everything that is needed to show a difference again; it never changes."""

    program: Program
    constants: Mapping[str, torch.Tensor]
    """By digest."""
    inputs: tuple[torch.Tensor, ...]
    """In the order of the program's inputs."""
    seed: int = 0

    @classmethod
    def of(cls, subject: Subject) -> Witness | None:
        """What a subject holds, or None when its model could not be exported."""
        program = subject.load_program()
        if program is None:
            return None
        tensors = tuple(item.tensor for item in subject.load_inputs().tensors)
        return cls(program, subject.load_tensors(), tensors, subject.seed)

    def subject(self, path: Path) -> Subject:
        """The witness as workers take it; its tensors are written to `path`."""
        inputs = Inputs.of(self.inputs, {}, [item.name for item in self.program.inputs])
        return make_subject(path, self.program.name, self.seed, inputs, self.program, self.constants)

    def with_inputs(self, tensors: Sequence[torch.Tensor]) -> Witness:
        """The same program on other tensors; the program's description of its inputs follows."""
        described = tuple(replace(item, meta=TensorMeta.of(t)) for item, t in zip(self.program.inputs, tensors))
        return replace(self, program=replace(self.program, inputs=described, example=()), inputs=tuple(tensors))

    def used_constants(self) -> list[torch.Tensor]:
        """The constants of the program, in its order."""
        return [self.constants[constant.digest] for constant in self.program.constants]

    def elements(self) -> int:
        """Numbers that a reader would have to look at."""
        return sum(tensor.numel() for tensor in (*self.inputs, *self.used_constants()))

    @property
    def key(self) -> str:
        """Two witnesses with one key are the same experiment, bit for bit."""
        program = self.program
        content = hashlib.blake2b(digest_size=12)
        nodes = [[n.id, n.op, n.args, dict(n.kwargs), n.where] for n in program.nodes]
        given = [[item.id, item.name] for item in program.given()]
        content.update(pack([given, nodes, program.outputs, self.seed]))
        for tensor in self.inputs:
            content.update(digest(tensor).encode())
        for constant in program.constants:
            content.update(constant.digest.encode())
        return content.hexdigest()

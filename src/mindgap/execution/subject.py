"""A model made ready to travel: program, source, weights and inputs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import torch

from mindgap.execution import arena
from mindgap.program.codec import decode, encode
from mindgap.program.graph import Argument, Program, digest
from mindgap.program.inputs import Inputs
from mindgap.records.source import Source
from mindgap.records.tensors import NamedTensor


@dataclass(frozen=True)
class Subject:
    """What every platform is given; its tensors lie in one file that all workers map."""

    name: str
    seed: int
    file: str
    args: tuple[Argument, ...]
    kwargs: Mapping[str, Argument]
    input_names: tuple[str, ...]
    input_entries: tuple[arena.Entry, ...]
    tensors: Mapping[str, arena.Entry]
    """Constants of the program and state of the source module, by digest."""
    state: tuple[tuple[str, str], ...] = ()
    """Name and digest of each parameter and buffer of the source module."""
    program: bytes | None = None
    export_failure: str = ""
    """Why there is no program."""
    source: Source | None = None
    nodes: int | None = None
    parameters: int = 0

    def to_message(self) -> dict[str, Any]:
        message = {name: getattr(self, name) for name in self.__dataclass_fields__}
        message["source"] = asdict(self.source) if self.source else None
        return message

    @classmethod
    def from_message(cls, message: Mapping[str, Any]) -> Subject:
        source = message["source"]
        return cls(**{**message, "source": Source(**source) if source else None})

    def load_inputs(self) -> Inputs:
        tensors = arena.read(Path(self.file), self.input_entries)
        return Inputs(self.args, self.kwargs, tuple(map(NamedTensor, self.input_names, tensors)))

    def load_tensors(self) -> dict[str, torch.Tensor]:
        return dict(zip(self.tensors, arena.read(Path(self.file), list(self.tensors.values()))))

    def load_program(self) -> Program | None:
        return None if self.program is None else decode(self.program)

    def without_source(self) -> Subject:
        return replace(self, source=None)


def make_subject(
    path: Path,
    name: str,
    seed: int,
    inputs: Inputs,
    program: Program | None,
    constants: Mapping[str, torch.Tensor],
    module: object = None,
    source: Source | None = None,
    export_failure: str = "",
) -> Subject:
    """Write the tensors of a model to `path` and describe it."""
    tensors = {c.digest: constants[c.digest] for c in program.constants} if program else {}
    state = []
    if isinstance(module, torch.nn.Module) and source is not None and source.pickled is None:
        for key, tensor in (*module.named_parameters(), *module.named_buffers()):
            tensors[identity := digest(tensor)] = tensor
            state.append((key, identity))
    entries = arena.write(path, [*(item.tensor for item in inputs.tensors), *tensors.values()])
    count = len(inputs.tensors)
    return Subject(
        name=name,
        seed=seed,
        file=str(path),
        args=inputs.args,
        kwargs=dict(inputs.kwargs),
        input_names=tuple(item.name for item in inputs.tensors),
        input_entries=tuple(entries[:count]),
        tensors=dict(zip(tensors, entries[count:])),
        state=tuple(state),
        program=encode(program) if program else None,
        export_failure=export_failure,
        source=source,
        nodes=len(program.nodes) if program else None,
        parameters=_parameter_count(module, program),
    )


def _parameter_count(module: object, program: Program | None) -> int:
    if isinstance(module, torch.nn.Module):
        return sum(parameter.numel() for parameter in module.parameters())
    return program.parameter_count() if program else 0

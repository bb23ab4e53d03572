"""A case as it travels: plain data, with its tensors in a file that every worker maps, or made where it is opened."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

import torch

from mindgap.errors import CorruptProgram
from mindgap.execution import arena
from mindgap.program.case import Case
from mindgap.program.codec import decode, encode, pack, unpack
from mindgap.program.examples import of_program
from mindgap.program.graph import Constant, Program, digest
from mindgap.program.inputs import Inputs, copy_of
from mindgap.program.made import Held, recreate
from mindgap.records.source import Source
from mindgap.records.tensors import NamedTensor

CACHE_BYTES: Final = 512 << 20
"""Weights that a worker keeps: the variants of one base share nearly all of them."""


@dataclass(frozen=True, slots=True)
class Parcel:
    """What a worker needs to open a case."""

    program: bytes = b""
    """Encoded; empty when the model could not be exported."""
    seed: int = 0
    weights: str = ""
    """The directory with the constants that no seed gives: the raw values of each in a file named by its digest."""
    file: str = ""
    """Where tensors lie; empty when all are made from recipes."""
    call: bytes = b""
    """Arguments and names of the inputs, packed; empty for a program's own example."""
    inputs: tuple[arena.Entry, ...] = ()
    inputs_file: str = ""
    """Where the inputs lie, if not beside the other tensors: a program on one batch of data after the other."""
    tensors: Mapping[str, arena.Entry] = field(default_factory=dict)
    """Constants of the program and state of the source model, by digest."""
    name: str = ""
    source: Source | None = None
    state: tuple[tuple[str, str], ...] = ()
    export_failure: str = ""
    model_file: str = ""
    """A model file that platforms read as it is, instead of a program."""
    parameters: int = 0
    nodes: int | None = None
    structure: str = ""
    """The same for cases that differ in nothing but their inputs, where that is known: prepared once, they all run."""

    @property
    def input_names(self) -> tuple[str, ...]:
        return tuple(unpack(self.call)[2]) if self.call else ()

    def without_source(self) -> Parcel:
        return replace(self, source=None)


def make_parcel(case: Case, path: Path) -> Parcel:
    """Write the tensors of a case to `path` and describe it."""
    tensors = {c.digest: case.constants[c.digest] for c in case.program.constants} if case.program else {}
    tensors |= {identity: case.constants[identity] for _, identity in case.state}
    entries = arena.write(path, [*case.tensors, *tensors.values()])
    count = len(case.tensors)
    names = [item.name for item in case.inputs.tensors]
    return Parcel(
        program=encode(case.program, compression=0) if case.program else b"",
        seed=case.seed,
        file=str(path),
        call=pack([case.inputs.args, dict(case.inputs.kwargs), names]),
        inputs=entries[:count],
        tensors=dict(zip(tensors, entries[count:])),
        name=case.name,
        source=case.source,
        state=case.state,
        export_failure=case.export_failure,
        model_file=case.file,
        parameters=case.parameters,
        nodes=len(case.program.nodes) if case.program else case.nodes or None,
    )


def open_parcel(parcel: Parcel, constants: Constants, mapped: bool = True) -> Case:
    """The case in a parcel, without the user's own model; copied where another worker may cut its file off."""
    program = decode(parcel.program) if parcel.program else None
    if not parcel.call:
        assert program is not None
        tensors = of_program(program, 0)
        return Case.of(program, constants.of(program, parcel.weights), tensors, parcel.seed)
    path = Path(parcel.file)
    args, kwargs, names = unpack(parcel.call)
    given = arena.read(Path(parcel.inputs_file or parcel.file), parcel.inputs, mapped)
    return Case(
        Inputs(args, kwargs, tuple(map(NamedTensor, names, given))),
        program,
        dict(zip(parcel.tensors, arena.read(path, list(parcel.tensors.values()), mapped))),
        parcel.seed,
        parcel.name,
        parcel.source,
        parcel.state,
        export_failure=parcel.export_failure,
        file=parcel.model_file,
        parameters=parcel.parameters,
    )


def with_state(model: Any, parcel_state: tuple[tuple[str, str], ...], tensors: Mapping[str, torch.Tensor]) -> None:
    """Give a module made here exactly the weights of the one that was exported."""
    if not isinstance(model, torch.nn.Module):
        return
    own = dict((*model.named_parameters(), *model.named_buffers()))
    with torch.no_grad():
        for name, identity in parcel_state:
            if name not in own or own[name].shape != tensors[identity].shape:
                raise CorruptProgram(f"the model made here has no {name} of the same shape")
            own[name].copy_(tensors[identity])


@dataclass
class Constants:
    """Constants by digest, made once and kept while there is room."""

    room: int = CACHE_BYTES
    _kept: OrderedDict[str, torch.Tensor] = field(default_factory=OrderedDict)
    _bytes: int = 0

    def of(self, program: Program, directory: str) -> dict[str, torch.Tensor]:
        """Every constant of a program; those that no seed gives are read from files."""
        found: dict[str, torch.Tensor] = {}
        for constant in program.constants:
            tensor = self._kept.get(constant.digest)
            if tensor is None:
                tensor = self._make(constant, program, directory)
            else:
                self._kept.move_to_end(constant.digest)
            found[constant.digest] = tensor
        return found

    def _make(self, constant: Constant, program: Program, directory: str) -> torch.Tensor:
        recipe = constant.made or Held(_read(Path(directory) / constant.digest, constant))
        made = recreate(recipe, constant.meta)
        if digest(made) != constant.digest:
            raise CorruptProgram(f"constant {constant.name} does not have its digest", where=program.name)
        # Kernels choose their path by alignment: torch's own memory gives the same bits in every process.
        tensor = copy_of(made)
        self._kept[constant.digest] = tensor
        self._bytes += tensor.nbytes
        while self._bytes > self.room and len(self._kept) > 1:
            _, oldest = self._kept.popitem(last=False)
            self._bytes -= oldest.nbytes
        return tensor


def _read(path: Path, constant: Constant) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise CorruptProgram(f"constant {constant.name} is missing", where=str(path), cause=error.strerror) from error

"""`model.mgp`: a program that mindgap wrote."""

from __future__ import annotations

from pathlib import Path

from mindgap.corpus import files, inputs
from mindgap.corpus.loaded import Loaded
from mindgap.corpus.registry import ModelSource, register
from mindgap.program import codec
from mindgap.records.source import Source


@register
class ProgramFile(ModelSource):
    """A program file with its constants beside it."""

    forms = ("model.mgp",)

    def claims(self, spec: str, directory: Path) -> bool:
        return spec.endswith(".mgp")

    def load(self, source: Source) -> Loaded:
        path = files.resolve(source.spec, source.directory)
        return read_program(path, path.name, source.seed)


def read_program(path: Path, name: str, seed: int) -> Loaded:
    """The program in a file with inputs that fit it."""
    program, constants = codec.load(path)
    args = inputs.of_program(program, seed)
    return Loaded(name, args, {}, program=program, constants=constants)

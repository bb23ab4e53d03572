"""`model.pt2`: an exported program as `torch.export.save` writes it."""

from __future__ import annotations

import io
import logging
from pathlib import Path

import torch
from torch.export import ExportedProgram
from torch.utils import _pytree as pytree

from mindgap.corpus import files, inputs
from mindgap.corpus.library import quiet
from mindgap.corpus.loaded import Loaded
from mindgap.corpus.registry import ModelSource, register
from mindgap.corpus.sources.pt2 import safety
from mindgap.errors import CorruptModel
from mindgap.program import codec
from mindgap.program.build import build
from mindgap.reading.files import read_file, refusing
from mindgap.reading.limits import TENSOR_BYTES
from mindgap.records.source import Source


@register
class ExportedFile(ModelSource):
    """An archive of torch.export; refused without trust when reading it would execute code."""

    forms = ("model.pt2",)

    def claims(self, spec: str, directory: Path) -> bool:
        return spec.endswith(".pt2")

    def load(self, source: Source) -> Loaded:
        path = files.resolve(source.spec, source.directory)
        content = read_file(path, TENSOR_BYTES, CorruptModel)  # checked and loaded from the same bytes
        what = f"{path.name} is not an exported program that torch {torch.__version__} reads"
        with refusing(what, path, CorruptModel):  # a damaged archive raises many types
            if not source.trust:
                danger = safety.danger(content, path.name)
                if danger is not None:
                    raise files.refuse(path, danger)
                content = safety.rewritten(content, path.name)
            # torch.export.load logs whole tracebacks before it raises; ours is the only message.
            with quiet("torch.export", logging.CRITICAL):
                exported = torch.export.load(io.BytesIO(content))
            program, constants = build(exported, path.name)
            program = codec.decode(codec.encode(program), str(path))  # shapes, names and depths within the limits
            args = _example(exported)
            if args is None or len(args) != len(program.inputs):
                args = inputs.of_program(program, source.seed)
        loaded = Loaded(path.name, args, {}, program=program, constants=constants)
        inputs.check_fit(loaded)
        return loaded


def _example(exported: ExportedProgram) -> tuple[torch.Tensor, ...] | None:
    """The tensors that the program was exported with, in flat order."""
    if not exported.example_inputs:
        return None
    flat = pytree.tree_leaves(exported.example_inputs)
    return tuple(leaf for leaf in flat if isinstance(leaf, torch.Tensor))

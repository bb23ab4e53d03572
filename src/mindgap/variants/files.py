"""Variants on disk: `NAME.mgp` is the program, `NAME.json` beside it the recipe."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Final

import msgspec
import torch

from mindgap.errors import CorruptProgram, ModelError
from mindgap.program import codec
from mindgap.reading.files import read_file, refusing
from mindgap.reading.limits import FILE_BYTES, TEXT_BYTES
from mindgap.records.files import write_whole
from mindgap.records.variant import Provenance
from mindgap.variants.base import Base
from mindgap.variants.synthesis import Variant

SCHEMA: Final = "mindgap.variant/1"


def save(directory: Path, variant: Variant, base: Base) -> Path:
    """Write a variant; the path of its program."""
    name = f"{_safe(base.name)}~{variant.provenance.seed:012x}"
    path = directory / f"{name}.mgp"
    recipe = {"schema": SCHEMA, "torch": str(torch.__version__), **msgspec.to_builtins(variant.provenance)}
    write_whole(path.with_suffix(".json"), json.dumps(recipe, indent=1))
    codec.save(path, variant.program, base.kept)
    return path


def load(path: Path) -> Variant:
    """A variant that `save` wrote."""
    recipe = path.with_suffix(".json")
    if not path.is_file():
        raise ModelError(f"there is no variant {path}", hint="mindgap variants make writes some")
    if not recipe.is_file():
        raise ModelError(f"{path} has no recipe", cause=f"there is no {recipe.name} beside it")
    program = codec.decode(read_file(path, FILE_BYTES, CorruptProgram), where=str(path))
    with refusing("the recipe cannot be read", recipe, CorruptProgram):
        message = json.loads(read_file(recipe, TEXT_BYTES, CorruptProgram))
        if message["schema"] != SCHEMA:
            raise ValueError(f"its schema is {message['schema']}")
        return Variant(program, msgspec.convert(message, Provenance))


def _safe(name: str) -> str:
    return "".join(c if c.isalnum() or c in "-_." else "-" for c in name)

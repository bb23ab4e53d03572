"""`model.pt` and its kin: a pickled module, which executes code when it is read."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

import torch

from mindgap.corpus import files
from mindgap.corpus.inputs import first_line
from mindgap.corpus.loaded import Loaded
from mindgap.corpus.registry import ModelSource, register
from mindgap.errors import ModelError
from mindgap.records.source import Source

_SUFFIXES: Final = (".pt", ".pth", ".bin", ".ckpt", ".pkl")


@register
class PickledModule(ModelSource):
    """A whole module as `torch.save(model, path)` writes it; it brings no inputs."""

    forms = ("model.pt (with --trust and --inputs)",)

    def claims(self, spec: str, directory: Path) -> bool:
        return spec.endswith(_SUFFIXES) and not (directory / spec).is_dir()

    def load(self, source: Source) -> Loaded:
        path = files.resolve(source.spec, source.directory)
        if not source.trust:
            raise files.refuse(path, "it is a Python pickle")
        files.make_importable(source)
        try:
            model = torch.load(path, map_location="cpu", weights_only=False)
        except Exception as error:  # unpickling runs any code and raises any type
            raise ModelError(f"{path.name} cannot be read", where=str(path), cause=first_line(error)) from error
        if not isinstance(model, torch.nn.Module):
            raise _not_a_model(path, model)
        return Loaded(path.name, (), {}, model=model)


def _not_a_model(path: Path, found: object) -> ModelError:
    weights = isinstance(found, Mapping) and any(isinstance(value, torch.Tensor) for value in found.values())
    return ModelError(
        f"{path.name} holds weights without a model" if weights else
        f"{path.name} holds a {type(found).__name__}, not a torch.nn.Module",
        where=str(path),
        cause="a state dict is only the numbers of a model" if weights else None,
        hint="write a factory that builds the model and loads them: file.py:factory" if weights else None,
    )  # fmt: skip

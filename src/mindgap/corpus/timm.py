"""`timm:NAME`: an image model of timm with living weights."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import torch

from mindgap.corpus import casting, files, library, weights
from mindgap.corpus.inputs import first_line, floats
from mindgap.corpus.loaded import Loaded
from mindgap.corpus.registry import ModelSource, register
from mindgap.errors import ModelError
from mindgap.records.source import Source

PREFIX: Final = "timm:"
SIZES: Final = (96, 128, 192)
"""Image sizes to try before the published one: small images make small, quick programs."""


@register
class TimmModel(ModelSource):
    """An architecture of timm, never with its published weights: nothing is downloaded."""

    forms = ("timm:NAME",)

    def claims(self, spec: str, directory: Path) -> bool:
        return spec.startswith(PREFIX)

    def load(self, source: Source) -> Loaded:
        timm = library.import_library("timm")
        name = source.spec.removeprefix(PREFIX)
        if not timm.is_model(name):
            found = files.nearest(name, timm.list_models())
            raise ModelError(
                f"timm has no model {name!r}",
                hint=f"did you mean timm:{found}?" if found else "timm.list_models() lists them",
            )
        with library.quiet(), library.offline():
            model, image = _smallest_that_runs(timm, name, source.seed)
        return casting.in_precision(Loaded(source.spec, (image,), {}, model=model), source.dtype)


def _smallest_that_runs(timm: Any, name: str, seed: int) -> tuple[torch.nn.Module, torch.Tensor]:
    published = timm.get_pretrained_cfg(name)
    channels, _, full = published.input_size if published is not None else (3, 224, 224)
    failure: Exception | None = None
    for size in (*(size for size in SIZES if size < full), full):
        image = floats(seed, "image", (1, channels, size, size))
        try:
            model = _create(timm, name, size if size != full else None, seed)
            with torch.no_grad():
                model(image)
            return model, image
        except Exception as error:  # a size that does not divide, a window that does not fit
            failure = error
    raise ModelError(f"timm:{name} does not run", cause=first_line(failure) if failure else None) from failure


def _create(timm: Any, name: str, size: int | None, seed: int) -> torch.nn.Module:
    torch.manual_seed(seed)
    try:
        sized = {"img_size": size} if size else {}
        model: torch.nn.Module = timm.create_model(name, pretrained=False, **sized)
    except TypeError:  # convolutional models take images of any size
        model = timm.create_model(name, pretrained=False)
    weights.enliven(model, seed)
    return model.eval()

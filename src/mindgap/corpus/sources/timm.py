"""`timm:NAME`: an image model of timm with living weights."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import Any, Final

from mindgap.corpus import attempts, library
from mindgap.corpus.attempts import Attempt
from mindgap.corpus.inputs import floats
from mindgap.corpus.loaded import Loaded
from mindgap.corpus.registry import Library, Offer, register
from mindgap.records.source import Source

SIZES: Final = (96, 128, 192)
"""Image sizes to try before the published one: small images make small, quick programs."""


@register
class TimmModel(Library):
    """An architecture of timm, never with its published weights: nothing is downloaded."""

    forms = ("timm:NAME",)
    prefix = "timm"
    packages = ("timm",)
    extra = "timm"
    spelled_in = ("models", r"@register_model\s+def (\w+)\(")

    def offers(self) -> Iterator[Offer]:
        timm = library.import_library("timm", self.extra)
        for name in timm.list_models():
            module = timm.model_entrypoint(name).__module__
            yield Offer(f"timm:{name}", "vision", module.rpartition(".")[2])

    def load(self, source: Source) -> Loaded:
        timm = library.import_library("timm", self.extra, at_least="1.0.15")
        name = source.spec.removeprefix("timm:")
        if not timm.is_model(name):
            attempts.known(name, timm.list_models(), self.prefix)
        return attempts.first_that_runs(source, _attempts(timm, name, source.seed))


def _attempts(timm: Any, name: str, seed: int) -> Iterator[Attempt]:
    published = timm.get_pretrained_cfg(name)
    channels, _, full = published.input_size if published is not None else (3, 224, 224)
    for size in (*(size for size in SIZES if size < full), full):
        image = floats(seed, "image", (1, channels, size, size))
        yield Attempt(functools.partial(_create, timm, name, size if size != full else None), (image,))


def _create(timm: Any, name: str, size: int | None) -> Any:
    try:
        return timm.create_model(name, pretrained=False, **({"img_size": size} if size else {}))
    except TypeError:  # convolutional models take images of any size
        return timm.create_model(name, pretrained=False)

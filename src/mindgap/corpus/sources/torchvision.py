"""`torchvision:NAME`: a model of torchvision's own table."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from mindgap.corpus import attempts, library
from mindgap.corpus.attempts import Attempt
from mindgap.corpus.inputs import floats
from mindgap.corpus.loaded import Loaded
from mindgap.corpus.registry import Library, Offer, register
from mindgap.records.source import Source


@register
class TorchvisionModel(Library):
    """A model for classification, segmentation, detection, video or optical flow."""

    forms = ("torchvision:NAME",)
    prefix = "torchvision"
    packages = ("torchvision",)
    extra = "torchvision"

    def offers(self) -> Iterator[Offer]:
        models = self._models()
        for name in models.list_models():
            module = models.get_model_builder(name).__module__
            yield Offer(f"torchvision:{name}", "vision", module.removeprefix("torchvision.models."))

    def load(self, source: Source) -> Loaded:
        models = self._models()
        name = attempts.known(source.spec.removeprefix("torchvision:"), models.list_models(), self.prefix)
        return attempts.first_that_runs(source, _attempts(models, name, source.seed))

    def _models(self) -> Any:
        return library.import_library("torchvision.models", self.extra)


def _attempts(models: Any, name: str, seed: int) -> Iterator[Attempt]:
    """Images, then clips, pairs of images and lists of images, by what the model's module is for."""
    builder = models.get_model_builder(name)
    kind = builder.__module__.removeprefix("torchvision.models.").partition(".")[0]
    backbone = {"weights_backbone": None} if kind in ("detection", "segmentation") else {}

    def build() -> Any:
        return models.get_model(name, weights=None, **backbone)

    if kind == "optical_flow":
        pair = tuple(floats(seed, side, (1, 3, 128, 128)) for side in ("left", "right"))
        yield Attempt(build, pair)
    elif kind == "detection":
        yield Attempt(build, ([floats(seed, "image", (3, 128, 128))],))
    elif kind == "video":
        for frames, size in ((4, 64), (8, 112), (16, 224)):
            yield Attempt(build, (floats(seed, "clip", (1, 3, frames, size, size)),))
    else:
        for size in (96, 224, 299):
            yield Attempt(build, (floats(seed, "image", (1, 3, size, size)),))

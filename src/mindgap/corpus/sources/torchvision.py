"""`torchvision:NAME`: a model of torchvision's own table."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import Any

from mindgap.corpus.attempts import Attempt, with_images
from mindgap.corpus.catalogue import Catalogue
from mindgap.corpus.inputs import floats
from mindgap.corpus.registry import register

_MODELS = "torchvision.models"


@register
class TorchvisionModel(Catalogue):
    """A model for classification, segmentation, detection, video or optical flow."""

    forms = ("torchvision:NAME",)
    prefix = "torchvision"
    packages = ("torchvision",)
    extra = "torchvision"
    domain = "vision"

    def models(self) -> dict[str, Any]:
        models = self.imported(_MODELS)
        return {name: models.get_model_builder(name) for name in models.list_models()}

    def family(self, name: str, model: Any) -> str:
        return str(model.__module__).removeprefix(f"{_MODELS}.")

    def attempts(self, name: str, model: Any, seed: int) -> Iterator[Attempt]:
        """A pair of images, a list of them, a clip or an image, by what the model's module is for."""
        kind = self.family(name, model).partition(".")[0]
        backbone = {"weights_backbone": None} if kind in ("detection", "segmentation") else {}
        build = functools.partial(model, weights=None, **backbone)
        if kind == "optical_flow":
            yield Attempt(build, tuple(floats(seed, side, (1, 3, 128, 128)) for side in ("left", "right")))
        elif kind == "detection":
            yield Attempt(build, ([floats(seed, "image", (3, 128, 128))],))
        elif kind == "video":
            for frames, size in ((4, 64), (8, 112), (16, 224)):
                yield Attempt(build, (floats(seed, "clip", (1, 3, frames, size, size)),))
        else:
            yield from with_images(build, seed, (96, 224, 299))

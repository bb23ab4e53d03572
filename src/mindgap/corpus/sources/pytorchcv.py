"""`pytorchcv:NAME`: a model of pytorchcv, at the image size that it was published for unless that is large."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, Final

import torch

from mindgap.corpus import attempts, library
from mindgap.corpus.attempts import Attempt
from mindgap.corpus.inputs import floats
from mindgap.corpus.loaded import Loaded
from mindgap.corpus.registry import Library, Offer, register
from mindgap.records.source import Source

_AUDIO: Final = ("jasper", "quartznet", "jasperdr")
FRAMES: Final = 64
"""Frames of a spectrogram."""
LARGE: Final = 256 * 256
"""Street scenes are published at two million pixels, which cost minutes and show no other operator."""
STRIDE: Final = 8
"""Of the segmentation networks of this library: image sides are multiples of it."""


@register
class PytorchcvModel(Library):
    """An architecture from the table of pytorchcv's model provider."""

    forms = ("pytorchcv:NAME",)
    prefix = "pytorchcv"
    packages = ("pytorchcv",)
    extra = "pytorchcv"

    def offers(self) -> Iterator[Offer]:
        for name, function in sorted(self._models().items()):
            family = function.__module__.rpartition(".")[2]
            yield Offer(f"pytorchcv:{name}", "audio" if family in _AUDIO else "vision", family)

    def load(self, source: Source) -> Loaded:
        models = self._models()
        name = attempts.known(source.spec.removeprefix("pytorchcv:"), sorted(models), self.prefix)
        return attempts.first_that_runs(source, _attempts(models[name], source.seed))

    def _models(self) -> dict[str, Any]:
        provider = library.import_library("pytorchcv.model_provider", self.extra)
        return dict(provider._models)


def _attempts(function: Any, seed: int) -> Iterator[Attempt]:
    model: torch.nn.Module = function(pretrained=False)
    channels = int(getattr(model, "in_channels", None) or 3)
    size = tuple(getattr(model, "in_size", None) or (224, 224))
    small = smaller(size)
    if small != size:
        image = floats(seed, "image", (1, channels, *small))
        yield Attempt(lambda: function(pretrained=False, in_size=small), (image,))
    yield Attempt(lambda: model, (floats(seed, "image", (1, channels, *size)),))
    # Batch normalisation over single pixels, and models that compare the frames of a batch, want two.
    yield Attempt(lambda: model, (floats(seed, "image", (2, channels, *size)),))
    sound = floats(seed, "sound", (2, channels, FRAMES))
    yield Attempt(lambda: model, (sound, torch.tensor([FRAMES, FRAMES // 2])))


def smaller(size: tuple[int, ...]) -> tuple[int, ...]:
    """A large size halved until it is small, as long as networks that halve it themselves can follow."""
    most = LARGE // 4 if math.prod(size) > LARGE else LARGE
    while math.prod(size) > most and all(side % (2 * STRIDE) == 0 for side in size):
        size = tuple(side // 2 for side in size)
    return size

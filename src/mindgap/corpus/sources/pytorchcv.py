"""`pytorchcv:NAME`: a model of pytorchcv, at the image size that it was published for unless that is large."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, Final

import torch

from mindgap.corpus.attempts import Attempt
from mindgap.corpus.catalogue import Catalogue
from mindgap.corpus.inputs import floats
from mindgap.corpus.registry import register

_AUDIO: Final = ("jasper", "quartznet", "jasperdr")
FRAMES: Final = 64
"""Frames of a spectrogram."""
LARGE: Final = 256 * 256
"""Networks for street scenes expect two million pixels: minutes per run, and no operator more."""
STRIDE: Final = 8
"""Segmentation networks of this library need image sides that are multiples of it."""


@register
class PytorchcvModel(Catalogue):
    """An architecture from the table of pytorchcv's model provider."""

    forms = ("pytorchcv:NAME",)
    prefix = "pytorchcv"
    packages = ("pytorchcv",)
    extra = "pytorchcv"

    def models(self) -> dict[str, Any]:
        return dict(sorted(self.imported("pytorchcv.model_provider")._models.items()))

    def domain_of(self, name: str, model: Any) -> str:
        return "audio" if self.family(name, model) in _AUDIO else "vision"

    def attempts(self, name: str, model: Any, seed: int) -> Iterator[Attempt]:
        whole: torch.nn.Module = model(pretrained=False)
        channels = int(getattr(whole, "in_channels", None) or 3)
        size = tuple(getattr(whole, "in_size", None) or (224, 224))
        small = smaller(size)
        if small != size:
            image = floats(seed, "image", (1, channels, *small))
            yield Attempt(lambda: model(pretrained=False, in_size=small), (image,))
        yield Attempt(lambda: whole, (floats(seed, "image", (1, channels, *size)),))
        # Batch normalisation over single pixels, and models that compare the frames of a batch, want two.
        yield Attempt(lambda: whole, (floats(seed, "image", (2, channels, *size)),))
        sound = floats(seed, "sound", (2, channels, FRAMES))
        yield Attempt(lambda: whole, (sound, torch.tensor([FRAMES, FRAMES // 2])))


def smaller(size: tuple[int, ...]) -> tuple[int, ...]:
    """A large size, halved until it is small or no longer divisible by the networks' stride."""
    most = LARGE // 4 if math.prod(size) > LARGE else LARGE
    while math.prod(size) > most and all(side % (2 * STRIDE) == 0 for side in size):
        size = tuple(side // 2 for side in size)
    return size

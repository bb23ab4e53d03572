"""`smp:ARCHITECTURE:ENCODER`: a model of segmentation_models_pytorch."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterator
from typing import Any, Final

from mindgap.corpus.attempts import Attempt, with_images
from mindgap.corpus.catalogue import Catalogue
from mindgap.corpus.registry import register

SIZES: Final = (64, 128, 224, 256)
"""Image sizes to try: deep encoders need a few pixels left at the end, transformers their own size."""

_ONLY_TIMM: Final = ("dpt",)
"""Decoders that accept none of the encoders in the package's table."""


@register
class SegmentationModel(Catalogue):
    """Every decoder of the package on every encoder of its table."""

    forms = ("smp:ARCHITECTURE:ENCODER",)
    prefix = "smp"
    packages = ("segmentation_models_pytorch",)
    extra = "smp"
    domain = "vision"

    def models(self) -> dict[str, Any]:
        smp = self.imported("segmentation_models_pytorch")
        architectures = sorted(name for name in smp.MODEL_ARCHITECTURES_MAPPING if name not in _ONLY_TIMM)
        pairs = itertools.product(architectures, sorted(smp.encoders.get_encoder_names()))
        return {
            f"{architecture}:{encoder}": functools.partial(
                smp.create_model, architecture, encoder_name=encoder, encoder_weights=None
            )
            for architecture, encoder in pairs
        }

    def family(self, name: str, model: Any) -> str:
        return name.partition(":")[0]

    def attempts(self, name: str, model: Any, seed: int) -> Iterator[Attempt]:
        return with_images(model, seed, SIZES)

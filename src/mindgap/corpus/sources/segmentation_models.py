"""`smp:ARCHITECTURE:ENCODER`: a model of segmentation_models_pytorch."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from mindgap.corpus import attempts, library
from mindgap.corpus.attempts import Attempt
from mindgap.corpus.inputs import floats
from mindgap.corpus.loaded import Loaded
from mindgap.corpus.registry import Library, Offer, register
from mindgap.records.source import Source

SIZES: Final = (64, 128, 224, 256)
"""Image sizes to try: deep encoders need a few pixels left at the end, transformers their own size."""

_ONLY_TIMM: Final = ("dpt",)
"""Decoders that accept none of the encoders in the package's table."""


@register
class SegmentationModel(Library):
    """Every decoder of the package on every encoder of its table."""

    forms = ("smp:ARCHITECTURE:ENCODER",)
    prefix = "smp"
    packages = ("segmentation_models_pytorch",)
    extra = "smp"

    def offers(self) -> Iterator[Offer]:
        smp = self._package()
        for architecture in _architectures(smp):
            for encoder in sorted(smp.encoders.get_encoder_names()):
                yield Offer(f"smp:{architecture}:{encoder}", "vision", architecture)

    def load(self, source: Source) -> Loaded:
        smp = self._package()
        architecture, _, encoder = source.spec.removeprefix("smp:").partition(":")
        attempts.known(architecture, _architectures(smp), self.prefix)
        attempts.known(encoder, sorted(smp.encoders.get_encoder_names()), f"smp:{architecture}")
        return attempts.first_that_runs(source, _attempts(smp, architecture, encoder, source.seed))

    def _package(self) -> Any:
        return library.import_library("segmentation_models_pytorch", self.extra)


def _architectures(smp: Any) -> list[str]:
    return sorted(name for name in smp.MODEL_ARCHITECTURES_MAPPING if name not in _ONLY_TIMM)


def _attempts(smp: Any, architecture: str, encoder: str, seed: int) -> Iterator[Attempt]:
    for size in SIZES:
        yield Attempt(
            lambda: smp.create_model(architecture, encoder_name=encoder, encoder_weights=None),
            (floats(seed, "image", (1, 3, size, size)),),
        )

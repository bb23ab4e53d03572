"""`open_clip:NAME`: an image tower and a text tower, both made shallow and narrow."""

from __future__ import annotations

import copy
import functools
from collections.abc import Iterator
from typing import Any, Final

from mindgap.corpus import attempts
from mindgap.corpus.attempts import Attempt
from mindgap.corpus.catalogue import Catalogue
from mindgap.corpus.inputs import floats, integers
from mindgap.corpus.registry import register
from mindgap.errors import ModelError

VOCABULARY: Final = 512
LAYERS_OF: Final = 4
"""One layer is kept per so many published ones: models of different depth stay different."""
WIDTH_OF: Final = 8
"""Widths are divided by this, head widths follow: 64 wide heads become 8 wide."""


@register
class OpenClipModel(Catalogue):
    """A configuration that ships with open_clip, shrunk; towers of timm keep their size."""

    forms = ("open_clip:NAME",)
    prefix = "open_clip"
    packages = ("open_clip",)
    extra = "open-clip"
    domain = "multimodal"

    def models(self) -> dict[str, Any]:
        package = self.imported("open_clip")
        return {name: package.get_model_config(name) for name in sorted(package.list_models())}

    def family(self, name: str, model: Any) -> str:
        return name.partition("-")[0]

    def attempts(self, name: str, model: Any, seed: int) -> Iterator[Attempt]:
        fetched = model.get("text_cfg", {}).get("hf_model_name")
        if fetched:
            raise ModelError(f"open_clip:{name} needs network", cause=f"its text tower {fetched} is downloaded")
        package = self.imported("open_clip")
        captioner = "multimodal_cfg" in model
        kind = package.CoCa if captioner else package.CustomTextCLIP if model.get("custom_text") else package.CLIP
        for settings in (shrink(model), _shallow(model)):
            accepted = {key: value for key, value in settings.items() if key != "custom_text"}
            size, length = settings["vision_cfg"]["image_size"], settings["text_cfg"].get("context_length", 77)
            height, width = size if isinstance(size, list | tuple) else (size, size)
            image = floats(seed, "image", (1, 3, height, width))
            text = integers(seed, "text", (1, length), 1, VOCABULARY)
            yield Attempt(attempts.counted_first(functools.partial(kind, **accepted)), (image, text))


def shrink(published: dict[str, Any]) -> dict[str, Any]:
    """A quarter of the depth, an eighth of the width, four patches per side."""
    small = _shallow(published)
    small["embed_dim"] = _narrow(small["embed_dim"])
    vision = small["vision_cfg"]
    if "timm_model_name" not in vision:
        if isinstance(vision.get("layers"), int):
            vision["width"] = _narrow(vision.get("width", 768))
            vision["head_width"] = vision.get("head_width", 64) // WIDTH_OF
            vision["image_size"] = 4 * vision.get("patch_size", 16)
        else:
            vision["width"] = _narrow(vision.get("width", 64))
            vision["head_width"] = 16
            vision["image_size"] = 96
    for part in ("text_cfg", "multimodal_cfg"):
        if part in small and "width" in small[part]:
            small[part]["width"] = _narrow(small[part]["width"])
    return small


def _narrow(width: int) -> int:
    return max(16, width // WIDTH_OF)


def _shallow(published: dict[str, Any]) -> dict[str, Any]:
    """Only depth, vocabulary and text length cut."""
    small = copy.deepcopy(published)
    for part in ("vision_cfg", "text_cfg", "multimodal_cfg"):
        settings = small.get(part, {})
        layers = settings.get("layers")
        if isinstance(layers, int):
            settings["layers"] = max(1, layers // LAYERS_OF)
        elif isinstance(layers, list):
            settings["layers"] = [max(1, count // LAYERS_OF) for count in layers]
    small["text_cfg"]["vocab_size"] = VOCABULARY
    small["vision_cfg"].setdefault("image_size", 224)
    return small

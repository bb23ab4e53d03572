"""Inputs for the forward of a transformers model, from its signature and its configuration."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator, Mapping
from typing import Any, Final, TypeAlias

import torch

from mindgap.corpus import signatures
from mindgap.corpus.inputs import floats
from mindgap.corpus.sources.transformers.sizes import BATCH, LENGTH, Sizes
from mindgap.corpus.sources.transformers.tensors import OTHER_SHAPES, maker_for

Call: TypeAlias = dict[str, Any]

_TWO_TOWERS: Final = ("CLIP", "Clip", "Siglip", "Align", "Vilt", "Bridge", "Flava", "Blip", "GroupViT", "Owl",
                      "Aimv2Model", "DualEncoder")  # fmt: skip
"""Models that take pixels next to their token ids; without them they collapse into their text half."""
_EXTRAS: Final = (
    ("pixel_values",),
    ("input_features",),
    ("input_values",),
    ("attention_mask",),
    ("decoder_input_ids",),
    ("pixel_values", "decoder_input_ids"),
    ("input_features", "input_features_mask"),
)
"""Optional inputs that some models cannot do without."""
_GRIDS: Final[dict[str, list[list[int]]]] = {
    "grid_thw": [[1, 4, 4]],
    "grid_hws": [[4, 4]],
    "spatial_shapes": [[4, 4]] * BATCH,
    "target_sizes": [[4, 4]] * BATCH,
}
"""How the patches of an image are laid out, for vision towers that take images of any size."""


def calls(model: torch.nn.Module, config: Any, seed: int) -> Iterator[Call]:
    """Keyword arguments that may fit, the likeliest first."""
    maker = _Maker(model, config, seed)
    yield from maker.patch_calls()
    first = maker.first()
    yield first
    for name, shapes in OTHER_SHAPES.items():
        if name in first:
            for shape in shapes(maker.sizes):
                yield {**first, name: floats(seed, name, shape)}
    yield from maker.codebook_calls(first)
    for names in _EXTRAS:
        if set(names) <= set(maker.parameters) - set(first):
            yield {**first, **maker.tensors(names)}


def with_named(model: torch.nn.Module, config: Any, seed: int, call: Call, message: str) -> Call | None:
    """The call with the inputs that a refusal names and that were not given; None when there are none."""
    maker = _Maker(model, config, seed)
    asked = [name for name in maker.parameters if name not in call and re.search(rf"\b{name}\b", message)]
    added = maker.tensors(asked[:1])
    return {**call, **added} if added else None


class _Maker:
    """A model's parameters and the tensors for them."""

    def __init__(self, model: torch.nn.Module, config: Any, seed: int) -> None:
        self.sizes = Sizes(type(model).__name__, config, seed)
        self.config = config
        self.parameters: Mapping[str, inspect.Parameter] = inspect.signature(model.forward).parameters
        self.required = signatures.required(model.forward)
        self.main = str(getattr(model, "main_input_name", None) or "input_ids")

    def first(self) -> Call:
        """The main input, required ones, and those without which a part of the model would not run."""
        wanted = [self.main, *self.required]
        if getattr(self.config, "is_encoder_decoder", False):
            wanted.append("decoder_input_ids")
        elif self.main == "pixel_values" and self.sizes.number("vocab_size", default=0):
            wanted.append("input_ids")
        if self.main == "input_ids" and any(name in self.sizes.kind for name in _TWO_TOWERS):
            wanted.append("pixel_values")
        wanted.append("bbox")
        return self.tensors(dict.fromkeys(wanted))

    def tensors(self, names: Any) -> Call:
        """A tensor for each of these parameters that exists and is known."""
        known = {name: maker_for(name) for name in names if name in self.parameters}
        return {name: make(self.sizes, name) for name, make in known.items() if make is not None}

    def codebook_calls(self, first: Call) -> Iterator[Call]:
        """Tokens of several codebooks at once, in the layouts in which sound models take them."""
        count = self.sizes.number("num_codebooks", "num_channels", default=0)
        names = [name for name in ("input_ids", "decoder_input_ids") if name in first]
        if count and names:
            # One stream more than codebooks: the text that goes with the sound.
            shapes = [
                (BATCH, LENGTH, count),
                (BATCH, LENGTH, count + 1),
                (BATCH, count, LENGTH),
                (BATCH * count, LENGTH),
            ]
            for shape in shapes:
                yield {**first, names[-1]: self.sizes.ids(names[-1], *shape)}

    def patch_calls(self) -> Iterator[Call]:
        """Flattened patches with their grid, for vision towers that take images of any size."""
        grids = [name for name in _GRIDS if name in self.parameters and name in (*self.required, "target_sizes")]
        if not grids:
            return
        patch = self.sizes.number("patch_size", default=14)
        steps = self.sizes.number("temporal_patch_size", default=2)
        flat = self.sizes.channels * patch * patch
        first = next(iter(self.parameters))
        grid = {name: torch.tensor(_GRIDS[name]) for name in grids}
        others = self.tensors(name for name in self.required if name not in (first, *grids))
        shapes = [(16, flat * steps), (16, flat), (BATCH, 16, flat), (16, self.sizes.channels, patch, patch),
                  (BATCH, self.sizes.channels, patch, patch * 16)]  # fmt: skip
        for shape in shapes:
            masks = {name: torch.ones(shape[:2], dtype=torch.int64) for name in others if name.endswith("mask")}
            yield {first: floats(self.sizes.seed, first, shape), **grid, **others, **masks}

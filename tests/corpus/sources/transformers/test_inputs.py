from __future__ import annotations

from types import SimpleNamespace

import torch

from mindgap.corpus.sources.transformers import inputs
from mindgap.corpus.sources.transformers.sizes import Sizes
from mindgap.corpus.sources.transformers.tensors import maker_for

CONFIG = SimpleNamespace(
    vocab_size=50, hidden_size=8, image_size=600, patch_size=None, vision_config={"num_channels": 1}
)


class Reader(torch.nn.Module):
    main_input_name = "input_ids"

    def forward(
        self, input_ids: torch.Tensor, query_embeds: torch.Tensor, visual_feats: torch.Tensor | None = None
    ) -> None:
        return None


class Tower(torch.nn.Module):
    def forward(self, pixel_values: torch.Tensor, spatial_shapes: torch.Tensor, mask: torch.Tensor) -> None:
        return None


def test_the_main_input_and_required_ones_come_first() -> None:
    first = next(inputs.calls(Reader(), CONFIG, 0))
    assert {name: tuple(value.shape) for name, value in first.items()} == {
        "input_ids": (2, 16),
        "query_embeds": (2, 16, 8),
    }
    assert int(first["input_ids"].max()) < 50


def test_what_a_refusal_names_is_added_once() -> None:
    call = {"input_ids": torch.ones(2, 16, dtype=torch.int64)}
    message = "`visual_feats` cannot be `None`"
    more = inputs.with_named(Reader(), CONFIG, 0, call, message)
    assert more is not None and set(more) == {"input_ids", "visual_feats"}
    assert inputs.with_named(Reader(), CONFIG, 0, more, message) is None


def test_images_of_any_size_come_as_patches_with_their_grid() -> None:
    calls = list(inputs.calls(Tower(), CONFIG, 0))
    assert all(set(call) >= {"pixel_values", "spatial_shapes"} for call in calls[:3])
    assert {call["pixel_values"].dim() for call in calls[:3]} == {2, 3}


def test_sizes_are_found_in_parts_and_images_without_patches_are_small() -> None:
    sizes = Sizes("Reader", CONFIG, 0)
    assert sizes.channels == 1 and sizes.image == (96, 96) and sizes.number("absent", default=7) == 7


def test_an_input_is_known_by_its_name_or_by_its_kind() -> None:
    assert maker_for("qformer_input_ids") is maker_for("input_ids")
    assert maker_for("inference_session") is None

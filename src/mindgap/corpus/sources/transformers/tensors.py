"""A tensor for each input that transformers models know by name."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final, TypeAlias

import torch

from mindgap.corpus.inputs import floats, integers
from mindgap.corpus.sources.transformers.sizes import BATCH, LENGTH, Sizes

SAMPLES: Final = 4000
"""Samples of raw audio: a quarter of a second."""
FRAMES: Final = 64
"""Frames of a spectrogram."""
_REGIONS: Final = 8
"""Regions of an image that were found before."""

Make: TypeAlias = Callable[[Sizes, str], torch.Tensor]
Shapes: TypeAlias = list[tuple[int, ...]]


def maker_for(name: str) -> Make | None:
    """How to make the input of this name, or of its kind."""
    if name in _MAKERS:
        return _MAKERS[name]
    return next((make for pattern, make in _KINDS if pattern.search(name)), None)


def _tokens(sizes: Sizes, name: str) -> torch.Tensor:
    shape = (BATCH, 2, LENGTH) if "MultipleChoice" in sizes.kind else (BATCH, LENGTH)
    tokens = sizes.ids(name, *shape)
    end = sizes.number("eos_token_id", default=0)
    if 0 < end < sizes.number("vocab_size", default=0):  # some heads read the state of the last end token
        tokens[..., -1] = end
    return tokens


def _pixels(sizes: Sizes, name: str) -> torch.Tensor:
    if "KeypointMatching" in sizes.kind or "LoFTR" in sizes.kind:  # two images of one scene
        return floats(sizes.seed, name, (BATCH, 2, sizes.channels, *sizes.image))
    frames = (sizes.frames,) if sizes.is_video or name == "pixel_values_videos" else ()
    return floats(sizes.seed, name, (BATCH, *frames, sizes.channels, *sizes.image))


def _code_pixels(sizes: Sizes, name: str) -> torch.Tensor:
    """An image with eight pixels per patch."""
    side = 8 * sizes.image[0] // sizes.number("patch_size", default=16)
    return floats(sizes.seed, name, (BATCH, 3, side, side))


def _flattened(sizes: Sizes, name: str) -> torch.Tensor:
    """Patches, each after its row and column."""
    patch = sizes.number("patch_size", default=16)
    places = torch.cartesian_prod(torch.arange(1.0, 5.0), torch.arange(1.0, 5.0)).expand(BATCH, -1, -1)
    return torch.cat([places, floats(sizes.seed, name, (BATCH, 16, sizes.channels * patch * patch))], dim=-1)


def _audio(sizes: Sizes, name: str) -> torch.Tensor:
    channels = sizes.number("audio_channels", default=0)
    is_spectrogram = "max_length" in vars(sizes.config) and sizes.number("num_mel_bins", default=0) > 0
    if is_spectrogram:  # under the name of raw audio
        return floats(sizes.seed, name, (BATCH, sizes.number("max_length", default=FRAMES), sizes.mels))
    return floats(sizes.seed, name, (BATCH, channels, 4800) if channels else (BATCH, SAMPLES))


def _spectrogram(sizes: Sizes, name: str) -> torch.Tensor:
    positions = sizes.number("max_source_positions", default=0)
    frames_first = sizes.entry("conv_kernel_sizes", "feature_projection_input_dim") is not None
    if positions and not frames_first:  # Whisper: fixed length, bins first
        return floats(sizes.seed, name, (BATCH, sizes.mels, 2 * positions))
    return floats(sizes.seed, name, (BATCH, FRAMES, sizes.mels))


def _hidden(sizes: Sizes, name: str) -> torch.Tensor:
    width = sizes.number("encoder_hidden_size", default=sizes.width) if name.startswith("encoder") else sizes.width
    return floats(sizes.seed, name, (BATCH, LENGTH, width))


def _boxes(sizes: Sizes, name: str) -> torch.Tensor:
    """Boxes inside a page of 1000 x 1000, with increasing corners."""
    corner = integers(sizes.seed, name, (BATCH, LENGTH, 1), 0, 100)
    boxes = corner.repeat(1, 1, 4).cumsum(-1)
    return boxes / 1000 if sizes.kind.startswith("Udop") else boxes


def _past(sizes: Sizes, name: str) -> torch.Tensor:
    channels = sizes.number("num_input_channels", "input_size", default=1)
    lags = sizes.entry("lags_sequence")
    length = sizes.number("context_length", "prediction_length", default=32)
    if isinstance(lags, list | tuple):  # a series of numbers, with as many before it as the model looks back
        length += max(lags)
        return floats(sizes.seed, name, (BATCH, length) if channels == 1 else (BATCH, length, channels))
    return floats(sizes.seed, name, (BATCH, length, channels))


def _ahead(sizes: Sizes) -> int:
    return sizes.number("prediction_length", default=16)


def _times(sizes: Sizes, name: str, length: int) -> torch.Tensor:
    return floats(sizes.seed, name, (BATCH, length, sizes.number("num_time_features", default=0)))


def _anything(sizes: Sizes, name: str) -> torch.Tensor:
    """The input of models for any modality: images, sound or tokens, by the head."""
    if any(word in sizes.kind for word in ("Image", "Optical", "Vision")):
        return _pixels(sizes, name)
    return _audio(sizes, name) if "Speech" in sizes.kind else _tokens(sizes, name)


def _features(*names: str, default: int, length: int = LENGTH) -> Make:
    """Vectors whose width is one of these entries."""
    return lambda sizes, name: floats(sizes.seed, name, (BATCH, length, sizes.number(*names, default=default)))


_MAKERS: Final[dict[str, Make]] = {
    "input_ids": _tokens,
    "decoder_input_ids": _tokens,
    "task_inputs": lambda sizes, name: sizes.ids(name, BATCH, sizes.number("task_seq_len", default=77)),
    "pixel_values": _pixels,
    "images": _pixels,
    "pixel_values_videos": _pixels,
    "prompt_pixel_values": _pixels,
    "prompt_masks": _pixels,
    "codebook_pixel_values": _code_pixels,
    "flattened_patches": _flattened,
    "bool_masked_pos": lambda sizes, name: (torch.arange(sizes.patches()) % 2 == 0).expand(BATCH, -1).clone(),
    "merge_sizes": lambda sizes, name: torch.ones(1, dtype=torch.int64),
    "input_values": _audio,
    "speech_input": _audio,
    "audio_values": _audio,
    "input_features": _spectrogram,
    "spectrogram": _spectrogram,
    "input_features_mask": lambda sizes, name: torch.ones(BATCH, FRAMES, dtype=torch.int64),
    "audio_mel": _features("input_feat_size", default=128, length=FRAMES),
    "audio_mel_mask": lambda sizes, name: torch.zeros(BATCH, FRAMES, dtype=torch.bool),  # true means padding
    "hidden_state": _hidden,
    "decoder_input_values": _features("num_mel_bins", default=80),
    "visual_feats": _features("visual_feat_dim", default=2048, length=_REGIONS),
    "visual_pos": _features("visual_pos_dim", default=4, length=_REGIONS),
    "bbox": _boxes,
    "past_values": _past,
    "past_values_padding": lambda sizes, name: torch.zeros(_past(sizes, name).shape[:2], dtype=torch.int64),
    "past_time_features": lambda sizes, name: _times(sizes, name, _past(sizes, "past_values").shape[1]),
    "past_observed_mask": lambda sizes, name: torch.ones_like(_past(sizes, "past_values")),
    "future_values": lambda sizes, name: floats(sizes.seed, name, (BATCH, _ahead(sizes))),
    "future_time_features": lambda sizes, name: _times(sizes, name, _ahead(sizes)),
    "freq": lambda sizes, name: torch.zeros(BATCH, 1, dtype=torch.int64),
    "states": _features("state_dim", default=17),
    "actions": _features("act_dim", default=4),
    "rewards": _features(default=1),
    "returns_to_go": _features(default=1),
    "timesteps": lambda sizes, name: torch.arange(LENGTH).expand(BATCH, -1).clone(),
    "latents": lambda sizes, name: floats(sizes.seed, name, (BATCH, sizes.width, LENGTH)),
    "inputs": _anything,
}
_KINDS: Final[tuple[tuple[re.Pattern[str], Make], ...]] = (
    (re.compile(r"(^|_)input_ids$"), _tokens),
    (re.compile(r"attention_mask$"), lambda sizes, name: torch.ones(BATCH, LENGTH, dtype=torch.int64)),
    (re.compile(r"(embeds|hidden_states)$"), _hidden),
)
"""Fallbacks by a part of the name."""


def _other_pixels(sizes: Sizes) -> Shapes:
    larger = tuple(max(64, size) for size in sizes.image)
    return [
        (BATCH, sizes.frames, sizes.channels, *sizes.image),
        (BATCH, sizes.channels, *larger),
        (BATCH, sizes.channels, 224, 224),
        (BATCH, sizes.channels, 48, 320),  # a line of text
    ]


def _other_spectrograms(sizes: Sizes) -> Shapes:
    lengths = ((1, 3000), (BATCH, FRAMES))
    return [shape for batch, frames in lengths
            for shape in ((batch, sizes.mels, frames), (batch, frames, sizes.mels))]  # fmt: skip


OTHER_SHAPES: Final[dict[str, Callable[[Sizes], Shapes]]] = {
    "inputs": lambda sizes: [(BATCH, sizes.channels, 224, 224), (BATCH, 2048, sizes.number("d_model", default=64))],
    # Series of a single number come without a last axis.
    "past_values": lambda sizes: [(BATCH, sizes.number("context_length", default=32)), (BATCH, 64)],
    "pixel_values": _other_pixels,
    "pixel_values_videos": _other_pixels,
    "input_features": _other_spectrograms,
    "input_values": lambda sizes: [
        (BATCH, *shape) for shape in ((1, 16000), (16000,), (FRAMES, 80), (2, 16000), (7680,))
    ],
    # Raw audio, and what was made from it, under the name of hidden states.
    "hidden_states": lambda sizes: [(BATCH, 1, 3200), (BATCH, sizes.width, LENGTH)],
}
"""Other shapes to try for an input."""

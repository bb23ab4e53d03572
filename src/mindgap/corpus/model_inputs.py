"""Inputs for the forward of a transformers model, from its signature and its configuration."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, TypeAlias

import torch

from mindgap.corpus.inputs import floats, integers

BATCH: Final = 2
LENGTH: Final = 16
"""Tokens in a sequence."""
SAMPLES: Final = 4000
"""Samples of raw audio: a quarter of a second."""
FRAMES: Final = 64
"""Frames of a spectrogram."""

Call: TypeAlias = dict[str, Any]

_CHANNELS: Final = ("num_channels", "in_channels", "in_chans", "num_input_channels")
_MELS: Final = ("num_mel_bins", "n_mels", "feature_size", "input_feat_per_channel", "input_dim")

_TWO_TOWERS: Final = ("CLIP", "Siglip", "Align", "Vilt", "Bridge", "Flava", "Blip", "GroupViT", "Owl")
"""Models that take pixels next to their token ids; without them they collapse into their text half."""
_SUB_CONFIGS: Final = (
    "vision_config", "text_config", "encoder", "decoder", "audio_config", "backbone_config", "thinker_config",
)  # fmt: skip


def calls(model: torch.nn.Module, config: Any, seed: int) -> Iterator[Call]:
    """Keyword arguments that may fit, the likeliest first."""
    maker = _Maker(model, config, seed)
    first = maker.first()
    yield first
    for name in _ALTERNATIVES:
        if name in first:
            for shape in maker.other_shapes(name):
                yield {**first, name: floats(seed, name, shape)}
    yield from maker.codebook_calls(first)
    yield from maker.patch_calls()


class _Maker:
    """What the configuration says about sizes, and the tensors that follow from it."""

    def __init__(self, model: torch.nn.Module, config: Any, seed: int) -> None:
        self.config = config
        self.seed = seed
        self.kind = type(model).__name__
        self.parameters: Mapping[str, inspect.Parameter] = inspect.signature(model.forward).parameters
        self.main = str(getattr(model, "main_input_name", None) or "input_ids")
        self.is_video = "Video" in self.kind or "video" in str(getattr(config, "model_type", ""))
        self.image = self._image_size()
        self.channels = self.number(*_CHANNELS, default=3)
        self.width = self.number("hidden_size", "d_model", default=64)
        self.frames = self.number("num_frames", "frames_per_clip", default=4)
        self.mels = self.number(*_MELS, default=80)

    def first(self) -> Call:
        """The main input, required ones, and those without which a part of the model would not run."""
        wanted = [self.main, *self._required()]
        if getattr(self.config, "is_encoder_decoder", False):
            wanted.append("decoder_input_ids")
        elif self.main == "pixel_values" and self.number("vocab_size", default=0):
            wanted.append("input_ids")
        if self.main == "input_ids" and any(name in self.kind for name in _TWO_TOWERS):
            wanted.append("pixel_values")
        wanted.append("bbox")
        known = [name for name in dict.fromkeys(wanted) if name in self.parameters and name in _MAKERS]
        return {name: _MAKERS[name](self, name) for name in known}

    def other_shapes(self, name: str) -> list[tuple[int, ...]]:
        """Other layouts in which an input of this name comes."""
        return _ALTERNATIVES[name](self)

    def codebook_calls(self, first: Call) -> Iterator[Call]:
        """Tokens of several codebooks at once, in the layouts in which sound models take them."""
        count = self.number("num_codebooks", "num_channels", default=0)
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
                yield {**first, names[-1]: self.ids(names[-1], *shape)}

    def patch_calls(self) -> Iterator[Call]:
        """Flattened patches with their grid, for vision towers that take images of any size."""
        if "grid_thw" not in self.parameters:
            return
        patch = self.number("patch_size", default=14)
        steps = self.number("temporal_patch_size", default=2)
        first = next(iter(self.parameters))
        for width in (self.channels * patch * patch * steps, self.channels * patch * patch):
            yield {first: floats(self.seed, first, (16, width)), "grid_thw": torch.tensor([[1, 4, 4]])}

    def number(self, *names: str, default: int) -> int:
        """The first of these entries that is an integer, in the configuration or one inside it."""
        value = self._entry(*names)
        return value if isinstance(value, int) and not isinstance(value, bool) else default

    def ids(self, name: str, *shape: int) -> torch.Tensor:
        # From 3: the first ids are usually padding, start and end, which models treat apart.
        vocabulary = self.number("vocab_size", default=100)
        return integers(self.seed, name, shape, 3, max(4, min(vocabulary, 200) - 1))

    def _entry(self, *names: str) -> Any:
        inner = dict.fromkeys((*getattr(self.config, "sub_configs", {}), *_SUB_CONFIGS))
        for owner in (self.config, *(getattr(self.config, name, None) for name in inner)):
            for name in names:
                value = owner.get(name) if isinstance(owner, dict) else getattr(owner, name, None)
                if value is not None and not isinstance(value, dict):
                    return value
        return None

    def _image_size(self) -> tuple[int, ...]:
        size = self._entry("image_size", "img_size")
        if isinstance(size, list | tuple) and len(size) >= 2:
            return tuple(int(value) for value in size[-2:])
        return (size, size) if isinstance(size, int) else (64, 64)

    def _required(self) -> list[str]:
        variadic = (inspect.Parameter.VAR_KEYWORD, inspect.Parameter.VAR_POSITIONAL)
        return [name for name, parameter in self.parameters.items()
                if parameter.default is parameter.empty and parameter.kind not in variadic]  # fmt: skip


def _tokens(maker: _Maker, name: str) -> torch.Tensor:
    shape = (BATCH, 2, LENGTH) if "MultipleChoice" in maker.kind else (BATCH, LENGTH)
    tokens = maker.ids(name, *shape)
    end = maker.number("eos_token_id", default=0)
    if 0 < end < maker.number("vocab_size", default=0):  # some heads read the state of the last end token
        tokens[..., -1] = end
    return tokens


def _ones(maker: _Maker, name: str) -> torch.Tensor:
    return torch.ones(BATCH, LENGTH, dtype=torch.int64)


def _pixels(maker: _Maker, name: str) -> torch.Tensor:
    frames = (maker.frames,) if maker.is_video or name == "pixel_values_videos" else ()
    return floats(maker.seed, name, (BATCH, *frames, maker.channels, *maker.image))


def _audio(maker: _Maker, name: str) -> torch.Tensor:
    channels = maker.number("audio_channels", default=0)
    is_spectrogram = "max_length" in vars(maker.config) and maker.number("num_mel_bins", default=0) > 0
    if is_spectrogram:  # under the name of raw audio
        return floats(maker.seed, name, (BATCH, maker.number("max_length", default=FRAMES), maker.mels))
    return floats(maker.seed, name, (BATCH, channels, 4800) if channels else (BATCH, SAMPLES))


def _spectrogram(maker: _Maker, name: str) -> torch.Tensor:
    positions = maker.number("max_source_positions", default=0)
    if positions and "conv_kernel_sizes" not in vars(maker.config):  # Whisper: fixed length, bins first
        return floats(maker.seed, name, (BATCH, maker.mels, 2 * positions))
    return floats(maker.seed, name, (BATCH, FRAMES, maker.mels))


def _hidden(maker: _Maker, name: str) -> torch.Tensor:
    return floats(maker.seed, name, (BATCH, LENGTH, maker.width))


def _boxes(maker: _Maker, name: str) -> torch.Tensor:
    """Boxes inside a page of 1000 x 1000, each corner beyond the one before."""
    corner = integers(maker.seed, name, (BATCH, LENGTH, 1), 0, 100)
    return corner.repeat(1, 1, 4).cumsum(-1)


def _past(maker: _Maker, name: str) -> torch.Tensor:
    length = maker.number("context_length", default=32)
    channels = maker.number("num_input_channels", "input_size", default=1)
    return floats(maker.seed, name, (BATCH, length, channels))


def _anything(maker: _Maker, name: str) -> torch.Tensor:
    """What models of any modality call their input: images, sound or tokens, by the head."""
    if any(word in maker.kind for word in ("Image", "Optical", "Vision")):
        return _pixels(maker, name)
    return _tokens(maker, name)


_MAKERS: Final[dict[str, Callable[[_Maker, str], torch.Tensor]]] = {
    "input_ids": _tokens,
    "decoder_input_ids": _tokens,
    "text_input_ids": _tokens,
    "attention_mask": _ones,
    "decoder_attention_mask": _ones,
    "pixel_values": _pixels,
    "images": _pixels,
    "pixel_values_videos": _pixels,
    "input_values": _audio,
    "speech_input": _audio,
    "audio_values": _audio,
    "input_features": _spectrogram,
    "spectrogram": _spectrogram,
    "inputs_embeds": _hidden,
    "hidden_states": _hidden,
    "encoder_hidden_states": _hidden,
    "hidden_state": _hidden,
    "bbox": _boxes,
    "past_values": _past,
    "inputs": _anything,
}


def _other_pixels(maker: _Maker) -> list[tuple[int, ...]]:
    larger = tuple(max(64, size) for size in maker.image)
    return [
        (BATCH, maker.frames, maker.channels, *maker.image),
        (BATCH, maker.channels, 224, 224),
        (BATCH, maker.channels, *larger),
    ]


def _other_spectrograms(maker: _Maker) -> list[tuple[int, ...]]:
    sizes = ((1, 3000), (BATCH, FRAMES))
    return [shape for batch, frames in sizes
            for shape in ((batch, maker.mels, frames), (batch, frames, maker.mels))]  # fmt: skip


def _other_audio(maker: _Maker) -> list[tuple[int, ...]]:
    return [(BATCH, 1, 16000), (BATCH, 16000), (BATCH, FRAMES, 80), (BATCH, 2, 16000)]


def _other_inputs(maker: _Maker) -> list[tuple[int, ...]]:
    return [(BATCH, maker.channels, 224, 224), (BATCH, 2048, maker.number("d_model", default=64))]


def _other_past(maker: _Maker) -> list[tuple[int, ...]]:
    """Series of a single number come without a last axis."""
    return [(BATCH, maker.number("context_length", default=32)), (BATCH, 64)]


_ALTERNATIVES: Final[dict[str, Callable[[_Maker], list[tuple[int, ...]]]]] = {
    "inputs": _other_inputs,
    "past_values": _other_past,
    "pixel_values": _other_pixels,
    "pixel_values_videos": _other_pixels,
    "input_features": _other_spectrograms,
    "input_values": _other_audio,
}

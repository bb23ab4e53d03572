"""What a transformers configuration says about the sizes of a model's inputs."""

from __future__ import annotations

from typing import Any, Final

import torch

from mindgap.corpus.inputs import integers

BATCH: Final = 2
LENGTH: Final = 16
"""Tokens in a sequence."""
LARGEST_IMAGE: Final = 96
"""Pixels per side for models that take images of any size."""

_CHANNELS: Final = ("num_channels", "in_channels", "in_chans", "num_input_channels")
_MELS: Final = (
    "num_mel_bins", "n_mels", "feature_projection_input_dim", "feature_size", "input_feat_per_channel", "input_dim",
    "input_feat_size",
)  # fmt: skip
_SUB_CONFIGS: Final = (
    "vision_config", "text_config", "encoder", "decoder", "audio_config", "backbone_config", "thinker_config",
)  # fmt: skip


class Sizes:
    """A configuration's numbers, whatever they are called in it."""

    def __init__(self, kind: str, config: Any, seed: int) -> None:
        self.kind = kind
        self.config = config
        self.seed = seed
        self.is_video = "Video" in kind or "video" in str(getattr(config, "model_type", ""))
        self.image = self._image_size()
        self.channels = self.number(*_CHANNELS, default=3)
        self.width = self.number("hidden_size", "d_model", default=64)
        self.frames = self.number("num_frames", "frames_per_clip", default=4)
        self.mels = self.number(*_MELS, default=80)

    def number(self, *names: str, default: int) -> int:
        """The first of these entries that is an integer, in the configuration or one inside it."""
        value = self.entry(*names)
        return value if isinstance(value, int) and not isinstance(value, bool) else default

    def ids(self, name: str, *shape: int) -> torch.Tensor:
        # From 3: the first ids are usually padding, start and end, which models treat apart.
        vocabulary = self.number("vocab_size", default=100)
        return integers(self.seed, name, shape, 3, max(4, min(vocabulary, 200) - 1))

    def patches(self) -> int:
        """How many patches an image has, with all frames of a video."""
        patch = self.number("patch_size", default=16)
        steps = self.frames // self.number("tubelet_size", default=2) if self.is_video else 1
        return steps * (self.image[0] // patch) * (self.image[1] // patch)

    def entry(self, *names: str) -> Any:
        """The first of these entries that is set."""
        inner = dict.fromkeys((*getattr(self.config, "sub_configs", {}), *_SUB_CONFIGS))
        for owner in (self.config, *(getattr(self.config, name, None) for name in inner)):
            for name in names:
                value = owner.get(name) if isinstance(owner, dict) else getattr(owner, name, None)
                if value is not None and not isinstance(value, dict):
                    return value
        return None

    def _image_size(self) -> tuple[int, ...]:
        size = self.entry("image_size", "img_size")
        if isinstance(size, list | tuple) and len(size) >= 2:
            return tuple(int(value) for value in size[-2:])
        side = size if isinstance(size, int) else 64
        # Without patches an image may have any size.
        return (side, side) if self.entry("patch_size") else (min(side, LARGEST_IMAGE),) * 2

"""`torchaudio:NAME`: a speech or music model of torchaudio, smaller than published where its parameters allow."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from typing import Any, Final

import torch

from mindgap.corpus import attempts, signatures
from mindgap.corpus.attempts import Attempt
from mindgap.corpus.catalogue import Catalogue
from mindgap.corpus.inputs import floats, integers
from mindgap.corpus.registry import register

SAMPLES: Final = 4000
FRAMES: Final = 32
WIDTH: Final = 32

_PARTS: Final = ("Hypothesis", "RNNTBeamSearch")
"""Records and searches, not networks."""
_SMALL: Final[dict[str, Any]] = {
    "num_classes": 20, "n_classes": 20, "n_class": 20, "n_feature": 40, "n_hidden": 64, "input_dim": WIDTH,
    "num_heads": 4, "ffn_dim": 64, "num_layers": 2, "depthwise_conv_kernel_size": 7, "segment_length": 4,
    "right_context_length": 2, "sources": ["voice", "rest"], "num_symbols": 20, "encoder_num_layers": 2,
    "encoder_embed_dim": 64, "encoder_num_heads": 4, "encoder_ff_interm_features": 96, "enc_num_feats": 32,
    "msk_num_feats": 16, "msk_num_hidden_feats": 32, "msk_num_layers": 2, "msk_num_stacks": 2,
    "upsample_scales": [2, 2], "hop_length": 4, "n_res_block": 1, "n_rnn": 32, "n_fc": 32, "n_freq": 16, "n_output": 16,
    "nfft": 256, "depth": 3, "channels": 8, "feat_dim": 16, "win_len": 64, "d_model": 16, "nhead": 2, "hidden_dim": 16,
    "num_blocks": 1, "rnn_type": "LSTM", "chunk_size": 8, "encoder_projection_dropout": 0.0,
    "encoder_attention_dropout": 0.0,
    "encoder_ff_interm_dropout": 0.0, "encoder_dropout": 0.0, "encoder_layer_drop": 0.0,
    "encoder_layer_norm_first": False, "extractor_mode": "group_norm",
    "extractor_conv_layer_config": [(32, 10, 5), (32, 3, 2), (32, 3, 2)],
    "extractor_conv_bias": False, "encoder_pos_conv_kernel": 16, "encoder_pos_conv_groups": 4, "aux_num_out": 20,
    "encoder_num_buckets": 32, "encoder_max_distance": 64,
}  # fmt: skip
"""Small values by parameter name."""


@register
class TorchaudioModel(Catalogue):
    """A class or factory of `torchaudio.models`; the compiled part of torchaudio is not needed."""

    forms = ("torchaudio:NAME",)
    prefix = "torchaudio"
    packages = ("torchaudio",)
    extra = "torchaudio"
    domain = "audio"

    def models(self) -> dict[str, Any]:
        """What can be built from known values."""
        models = self.imported("torchaudio.models")
        named = {name: getattr(models, name) for name in models.__all__ if name not in _PARTS}
        return {name: factory for name, factory in named.items() if set(signatures.required(factory)) <= set(_SMALL)}

    def family(self, name: str, model: Any) -> str:
        return str(model.__module__).split(".")[2]

    def attempts(self, name: str, model: Any, seed: int) -> Iterator[Attempt]:
        """Raw sound, spectrograms, and both with lengths; a class has every size cut, a factory the required ones."""
        given = signatures.arguments(model, _SMALL, None if inspect.isclass(model) else ("aux_num_out",))
        build = attempts.counted_first(lambda: model(**given))  # the largest have two billion parameters
        sound = floats(seed, "sound", (2, SAMPLES))
        frames, lengths = floats(seed, "frames", (2, FRAMES, WIDTH)), torch.tensor([FRAMES, FRAMES - 4])
        tokens = integers(seed, "tokens", (2, 8), 1, 20)
        waves = floats(seed, "waves", (1, 1, 16 * given.get("hop_length", 4)))
        for args in (
            (frames, lengths), (sound,), (sound[:, None],), (floats(seed, "stereo", (1, 2, 4 * SAMPLES)),),
            (floats(seed, "bins", (2, 1, FRAMES, 40)),), (frames, torch.tensor([FRAMES - 2, FRAMES - 6])),
            (floats(seed, "mels", (2, FRAMES, 80)), lengths, tokens, torch.tensor([8, 6])),
            (waves, floats(seed, "bins", (1, 1, 16, 20))), (sound, integers(seed, "labels", (2, 249), 0, 20)),
            (sound, sound.flip(0)),
        ):  # fmt: skip
            yield Attempt(build, args)

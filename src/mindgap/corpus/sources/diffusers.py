"""`diffusers:CLASS`: a denoiser, autoencoder or controller of diffusers made tiny."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import torch

from mindgap.corpus import signatures
from mindgap.corpus.attempts import Attempt
from mindgap.corpus.catalogue import Catalogue
from mindgap.corpus.inputs import floats, integers
from mindgap.corpus.registry import register

HEADS: Final = 4
HEAD_WIDTH: Final = 16
TEXT: Final = 32
"""Width of text features."""
TOKENS: Final = 8
"""Text features in a call."""
SIDE: Final = 16
"""Height and width of a latent image."""
FRAMES: Final = 5
"""Frames of a latent clip: one, and a group of four."""

_RULES: Final = tuple((re.compile(pattern), limit) for pattern, limit in (
    (r"(^|_)num_(attention_|key_value_|cross_attention_|kv_)?heads$|(^|_)n_heads$|num_attention_heads", HEADS),
    (r"(attention_)?head_dim$|attention_head_size$", HEAD_WIDTH),
    (r"layers_per_block$|num_res_blocks$", 1),
    (r"(^|_)(num|n)_(\w+_)?(layers|blocks)$|^depth$|^num_hidden_layers$", 2),
    (r"norm_num_groups|num_groups$", 8),
    (r"(cross|joint)_attention_dim|caption_channels|pooled_projection_dim|cap_feat_dim|encoder_hidden_size", TEXT),
    (r"text_(embed_)?dim|in_text_dim|text_states_dim|cross_attention_dim_t5|encoder_hidden_states_channels", TEXT),
    (r"hidden_size|model_dim|inner_dim|caption_projection_dim|(^|_)dim$|time_embed_dim|freq_dim", HEADS * HEAD_WIDTH),
    (r"ffn_dim|intermediate_size|ff_dim|mlp_dim", 96),
    (r"(in|out|latent|conditioning)_channels$|z_dim|z_channels", 16),
    (r"sample_(size|height|width)$|pos_embed_max_size|rope_max_seq_len|resolution$", 2 * SIDE),
    (r"vocab_size|codebook_size|num_embeds_ada_norm", 128),
))  # fmt: skip
"""No integer of a matching name is larger than this."""
_WIDTHS: Final = re.compile(r"block_out_channels$|^channels$|num_channels$")
_ROTARY: Final = re.compile(r"^axes_dims?(_rope)?$|^rope_axes_dim$|^rope_dim_list$")
_TEXT_WIDTHS: Final = (
    "joint_attention_dim", "cross_attention_dim", "caption_channels", "text_embed_dim", "text_dim", "in_text_dim",
    "cap_feat_dim", "encoder_hidden_states_channels", "text_states_dim", "condition_dim", "encoder_hidden_size",
)  # fmt: skip

_MODEL: Final = re.compile(r"Model|Autoencoder|Transformer|UNet|ControlNet|VQ")
_NO_MODEL: Final = re.compile(r"Mixin|^Multi|Auto(Model|encoderMixin)$|Output$")


@register
class DiffusersModel(Catalogue):
    """A model class of diffusers' own list; never with published weights."""

    forms = ("diffusers:CLASS",)
    prefix = "diffusers"
    packages = ("diffusers",)
    extra = "diffusers"
    domain = "diffusion"

    def models(self) -> dict[str, None]:
        """Names only: importing each class would take a minute."""
        listed = self.imported("diffusers")._import_structure["models"]
        return {name: None for name in sorted(listed) if _MODEL.search(name) and not _NO_MODEL.search(name)}

    def family(self, name: str, model: None) -> str:
        found = re.search(r"Autoencoder|ControlNet|Transformer|UNet|VQ|Adapter", name)
        return found.group() if found else "Model"

    def attempts(self, name: str, model: None, seed: int) -> Iterator[Attempt]:
        """Latent images, clips, sequences of tokens, volumes with frames first, and sound."""
        kind = getattr(self.imported("diffusers"), name)
        small = shrink(kind)
        missing = [name for name in signatures.required(kind.__init__) if name not in small]
        small.update(dict.fromkeys(missing, HEADS * HEAD_WIDTH))
        channels = _first_integer(small, ("in_channels", "in_visual_dim", "input_channels")) or 4
        square = (_first_integer(small, ("sample_size",)) or SIDE,) * 2
        for shape in (
            (1, channels, *square), (1, channels, FRAMES, *square), (1, SIDE * SIDE // 4, channels),
            (1, FRAMES, channels, *square), (1, channels, 64), (1, 1, 640), (1, 2, 640),
        ):  # fmt: skip
            for step in (torch.tensor([3]), torch.tensor([0.5])):
                yield Attempt(lambda: kind(**small), (), _inputs(kind, small, shape, step, seed))


def _first_integer(settings: Mapping[str, Any], names: Sequence[str]) -> int | None:
    """The first of these settings that is an integer."""
    return next((settings[name] for name in names if isinstance(settings.get(name), int)), None)


def shrink(kind: type[torch.nn.Module]) -> dict[str, Any]:
    """The defaults of a class, with every width and depth cut."""
    small: dict[str, Any] = {}
    for name, parameter in signatures.parameters(kind.__init__).items():
        if parameter.default is not parameter.empty:
            small[name] = _small(name, parameter.default)
    head = _first_integer(small, ("attention_head_dim", "head_dim"))
    for name, value in small.items():
        if _ROTARY.search(name) and isinstance(value, list | tuple) and head:
            small[name] = type(value)(rotary(value, head))
    return small


def rotary(widths: Sequence[int], head: int) -> list[int]:
    """Rotary widths of the axes, all even, whose sum is a head's width."""
    rest = [max(2, 2 * (width * head // (2 * sum(widths)))) for width in widths[1:]]
    return [head - sum(rest), *rest]


def _small(name: str, value: Any) -> Any:
    if isinstance(value, int) and not isinstance(value, bool):
        limit = next((limit for pattern, limit in _RULES if pattern.search(name)), value)
        return min(value, limit)
    numbers = isinstance(value, list | tuple) and value and all(type(item) is int for item in value)
    if numbers and _WIDTHS.search(name):
        return type(value)(min(item, 32 if index == 0 else 64) for index, item in enumerate(value))
    if numbers and re.search(r"layers_per_block$|num_layers$|depths?$", name):
        return type(value)(min(item, 1) for item in value)
    return value


def _inputs(
    kind: type[torch.nn.Module], small: Mapping[str, Any], shape: tuple[int, ...], step: torch.Tensor, seed: int
) -> dict[str, Any]:
    width = _first_integer(small, _TEXT_WIDTHS) or TEXT
    pooled = small.get("pooled_projection_dim") or TEXT
    sequence = shape[1] if len(shape) == 3 else TOKENS
    grid = (1, SIDE // 2, SIDE // 2)
    ids = torch.cartesian_prod(*(torch.arange(size) for size in grid)).float()
    known: dict[str, Any] = {
        **dict.fromkeys(("timestep", "t", "timesteps", "timestep_r", "r_timestep", "timestep_ratio"), step),
        **{name: floats(seed, name, shape) for name in ("sample", "hidden_states", "x", "z", "latents", "input")},
        **{name: floats(seed, name, (1, TOKENS, width)) for name in ("encoder_hidden_states", "cap_feats")},
        "pooled_projections": floats(seed, "pooled_projections", (1, pooled)),
        "encoder_attention_mask": torch.ones(1, TOKENS, dtype=torch.int64),
        "encoder_hidden_states_mask": torch.ones(1, TOKENS, dtype=torch.int64),
        "img_ids": ids, "txt_ids": torch.zeros(TOKENS, 3), "img_shapes": [[grid]], "txt_seq_lens": [TOKENS],
        "controlnet_cond": floats(seed, "controlnet_cond", (1, 3, 8 * SIDE, 8 * SIDE)),
        "class_labels": torch.tensor([1]), "conditioning_scale": 1.0, "input_ids": integers(seed,
        "input_ids", (1, sequence), 0, 128),
        "original_size": torch.tensor([[64, 64]]), "target_size": torch.tensor([[64, 64]]),
        "crop_coords": torch.tensor([[0, 0]]), "padding_mask": torch.zeros(1, 1, *shape[-2:]),
        "image_embeds": floats(seed, "image_embeds", (1, TOKENS, width)), "fps": torch.tensor([16]),
        "guidance": torch.tensor([1.0]),
    }  # fmt: skip
    takes = signatures.parameters(kind.forward)
    wanted = ["img_ids", "txt_ids", "img_shapes", "encoder_hidden_states", "pooled_projections", "timestep"]
    if small.get("guidance_embeds"):
        wanted.append("guidance")
    if "num_embeds_ada_norm" in small:
        wanted.append("class_labels")
    call = signatures.arguments(kind.forward, known, wanted)
    return {**call, "return_dict": False} if "return_dict" in takes else call

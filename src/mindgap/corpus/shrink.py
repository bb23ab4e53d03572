"""Any transformers configuration made tiny: the same architecture with small numbers.

A table of rules, tried in order on each entry's name; the first that matches gives the entry's new value.
Values are chosen so that they fit each other: width 64 = 4 heads of 16, rotary halves of 8, and so on.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

WIDTH: Final = 64
HEADS: Final = 4
HEAD_WIDTH: Final = 16
FEED_FORWARD: Final = 96
VOCABULARY: Final = 512
POSITIONS: Final = 512
DEPTH: Final = 2
EXPERTS: Final = 4
STAGES: Final = 5
"""Hierarchical models have at most so many stages; what has more entries is listed for each layer."""

Settings: TypeAlias = dict[str, Any]
Change: TypeAlias = Callable[[str, int, Mapping[str, Any]], int]


@dataclass(frozen=True, slots=True)
class Rule:
    """What becomes of the integers whose name matches."""

    pattern: re.Pattern[str]
    change: Change
    is_depth: bool = False
    """Whether it may be cut without breaking what other entries were tuned to."""


def at_most(limit: int) -> Change:
    return lambda name, value, settings: min(value, limit)


def exactly(number: int) -> Change:
    return lambda name, value, settings: number


def _as_it_is(name: str, value: int, settings: Mapping[str, Any]) -> int:
    return value


def _token(name: str, value: int, settings: Mapping[str, Any]) -> int:
    """Token ids stay below the vocabulary, and those with different names stay different."""
    return value if value < VOCABULARY else VOCABULARY - 20 + sum(map(ord, name)) % 19


def _key_value_heads(name: str, value: int, settings: Mapping[str, Any]) -> int:
    """Multi-head, grouped and multi-query attention each stay what they are."""
    heads = settings.get("num_attention_heads", settings.get("n_head"))
    return HEADS if value == heads else min(value, 2)


def _head_width(name: str, value: int, settings: Mapping[str, Any]) -> int:
    return HEAD_WIDTH // 2 if "qk_rope_head_dim" in settings else min(value, HEAD_WIDTH)


def _image(name: str, value: int, settings: Mapping[str, Any]) -> int:
    """Four patches a side, and never below what strided stems need."""
    patch = settings.get("patch_size") or 16
    patch = patch if isinstance(patch, int) else max(patch)
    return min(value, max(64 if patch > 8 else 32, patch * 4))


def _rule(pattern: str, change: Change, is_depth: bool = False) -> Rule:
    return Rule(re.compile(pattern), change, is_depth)


_WIDTH_NAMES: Final = (
    "hidden_size hidden_dim hidden_dimension hidden_channels d_model model_dim dim_model n_embd d_embed "
    "width embed_dim embedding_size embedding_dim emb_dim embedding_hidden_size entity_emb_size projection_dim "
    "proj_dim word_embed_proj_dim embed_proj_dim encoder_dim decoder_dim latent_dim d_latents conv_dim "
    "mask_feature_size feature_size lru_width output_dim vq_embed_dim hidden_size_per_layer_input d_kv_model"
)
_DEPTH_NAMES: Final = (
    "num_hidden_layers num_layers n_layers n_layer layers num_blocks num_block n_block depth encoder_layers "
    "decoder_layers num_encoder_layers num_decoder_layers num_transformer_layers num_fusion_layers "
    "num_self_attends_per_block predictor_layers num_hidden_groups conv_layers decoder_num_layers "
    "num_inner_layers"
)
_FEED_FORWARD_NAMES: Final = (
    "intermediate_size intermediate_dim ffn_dim ffn_size ffn_hidden_size dense_ffn expert_ffn d_ff n_inner "
    "inner_dim dim_feedforward feedforward_dim feedforward_size feed_forward_size mlp_dim mlp_hidden_size "
    "d_inner"
)
_HEAD_WIDTH_NAMES: Final = "d_kv d_head kv_channels attention_head_dim attention_head_size v_head_dim key_dim value_dim"
_HEAD_NAMES: Final = "num_attention_heads num_heads n_heads n_head attention_heads heads mixer_heads"


def _ends(names: str) -> str:
    return rf"(^|_)({'|'.join(names.split())})$"


INTEGER_RULES: Final = (
    _rule(r"feat_extract", _as_it_is),  # counts the entries of lists beside it
    _rule(r"^rotary_dim$", exactly(HEAD_WIDTH)),
    _rule(r"^qk_rope_head_dim$", exactly(HEAD_WIDTH // 2)),
    _rule(r"^qk_nope_head_dim$", exactly(HEAD_WIDTH)),
    _rule(r"^qk_head_dim$", exactly(HEAD_WIDTH + HEAD_WIDTH // 2)),
    _rule(r"^head_dim$", _head_width),
    _rule(r"(vocab_size|hash_buckets|_vocab)$", at_most(VOCABULARY), True),
    _rule(r"^(n_vocab|num_embeddings|codebook_size|num_classes)$", at_most(VOCABULARY), True),
    _rule(r"max_(position_embeddings|target_positions)$", at_most(POSITIONS)),
    _rule(r"max_(length|sequence_length|seq_len\w*)$", at_most(POSITIONS)),
    _rule(r"^(n_positions|n_ctx|max_text_len)$", at_most(POSITIONS)),
    _rule(r"_(token_id|token_index|id)$", _token, True),
    _rule(r"(num_key_value_heads|num_kv_heads|n_head_kv|num_key_value_groups)$", _key_value_heads),
    _rule(r"^mamba_(n|num)_heads$", exactly(8)),
    _rule(r"^mamba_(d_head|head_dim)$", exactly(HEAD_WIDTH)),
    _rule(r"^mamba_d_ssm$", exactly(8 * HEAD_WIDTH)),
    _rule(r"^(num|n)_filters$", at_most(8)),  # of the first stage: each one after it has twice as many
    _rule(r"^hidden_size_global$", at_most(WIDTH)),
    _rule(r"^(state_size|ssm_state_size|mamba_d_state|d_state)$", at_most(16)),
    _rule(_ends(_HEAD_NAMES), at_most(HEADS)),
    _rule(_ends(_HEAD_WIDTH_NAMES), at_most(HEAD_WIDTH)),
    _rule("|".join(_FEED_FORWARD_NAMES.split()), at_most(FEED_FORWARD)),
    _rule(_ends(_WIDTH_NAMES), at_most(WIDTH)),
    _rule(_ends(_DEPTH_NAMES), at_most(DEPTH), True),
    _rule(r"^(q|kv)_lora_rank$", at_most(32)),
    _rule(r"(^|_)(num|n)_(local_|routed_)?experts$", at_most(EXPERTS), True),
    _rule(r"experts_per_tok$|moe_top_?k$|^top_?k$|^moe_k$|num_selected_experts$", at_most(2), True),
    _rule(r"^(n_group|topk_group|num_expert_group)$", exactly(1)),
    _rule(r"^(mamba_)?(n|num)_groups$", at_most(2)),
    _rule(r"^(image|img)_size$", _image),
    _rule(r"^(num_queries|num_query_tokens|num_latents)$", at_most(16)),
)  # fmt: skip

_LAYER_KINDS: Final = re.compile(
    r"(layer_types|layers_block_type|block_types|attention_types|mlp_layer_types|layers_type)$"
)
_STAGE_DEPTHS: Final = re.compile(r"^(depths|num_blocks|layers)$")
_STAGE_WIDTHS: Final = re.compile(r"(hidden_sizes|embed_dims?|channels|dims?|hidden_dims|block_out_channels)$")
_MAIN_DEPTH: Final = ("num_hidden_layers", "n_layer", "num_layers")
_DROPPED: Final = ("out_features", "_out_features", "out_indices", "_out_indices", "stage_names",
                   "transformers_version", "dtype", "torch_dtype", "_name_or_path")  # fmt: skip
"""Entries that follow from others, or say where a configuration came from."""


def shrink(settings: Mapping[str, Any]) -> Settings:
    """A configuration with every width, depth and vocabulary cut, sub-configurations included."""
    small: Settings = {}
    for name, value in settings.items():
        small[name] = _small_value(name, value, settings)
    _one_layer_of_each_kind(small)
    _follow_depth(small, settings)
    for name in ("rope_parameters", "rope_scaling"):
        if isinstance(small.get(name), dict):
            small[name] = _small_rope(small[name])
    head_width = HEAD_WIDTH // 2 if "qk_rope_head_dim" in small else HEAD_WIDTH
    for name, default in (("pad_token_id", 0), ("vocab_size", VOCABULARY), ("head_dim", head_width)):
        if name in small and small[name] is None:  # left open until a tokenizer is known
            small[name] = default
    return _without_downloads(_without_derived(small))


def shallow(settings: Mapping[str, Any]) -> Settings:
    """A configuration with only depth, vocabulary and experts cut: widths stay as published."""
    small: Settings = {}
    for name, value in settings.items():
        rule = _rule_for(name)
        kept = _LAYER_KINDS.search(name) or _STAGE_DEPTHS.search(name) or (rule is not None and rule.is_depth)
        if _is_settings(name, value):
            small[name] = shallow(value)
        else:
            small[name] = _small_value(name, value, settings) if kept else value
    _one_layer_of_each_kind(small)
    _follow_depth(small, settings)
    return _without_downloads(_without_derived(small))


def with_sections(settings: Mapping[str, Any]) -> Settings:
    """A small configuration whose rotary embedding is split over time, height and width."""
    small = shrink(settings)
    for value in (small, *(value for value in small.values() if isinstance(value, dict))):
        if "num_key_value_heads" in value:
            rope = value.get("rope_parameters") or {"rope_type": "default", "rope_theta": 10000.0}
            value["rope_parameters"] = {**rope, "mrope_section": [2, 3, 3]}
    return small


def _small_value(name: str, value: Any, settings: Mapping[str, Any]) -> Any:
    if _is_settings(name, value):
        return shrink(value)
    if isinstance(value, int) and not isinstance(value, bool):
        rule = _rule_for(name)
        return value if rule is None else rule.change(name, value, settings)
    if isinstance(value, list | tuple) and value and all(type(item) is int for item in value):
        return _small_list(name, list(value), settings)
    return copy.deepcopy(value)


def _small_list(name: str, values: list[int], settings: Mapping[str, Any]) -> list[int]:
    if name in ("image_size", "img_size"):
        return [_image(name, value, settings) for value in values]
    if _STAGE_DEPTHS.search(name):
        return [min(value, 1) for value in values]
    if _STAGE_WIDTHS.search(name) and len(values) > 1 and min(values) >= 32:
        factor = min(values) // 16
        return [value // factor for value in values]
    return values


def _one_layer_of_each_kind(small: Settings) -> None:
    """Lists with one kind for each layer keep every kind once, and the depth follows them."""
    kinds = {name: list(dict.fromkeys(value)) for name, value in small.items()
             if _LAYER_KINDS.search(name) and isinstance(value, list | tuple) and value
             and all(isinstance(item, str) for item in value)}  # fmt: skip
    if not kinds:
        return
    depth = max(DEPTH, min(4, max(map(len, kinds.values()))))
    for name, distinct in kinds.items():
        small[name] = (distinct * depth)[:depth]
    small.update({name: depth for name in _MAIN_DEPTH if isinstance(small.get(name), int)})


def _follow_depth(small: Settings, settings: Mapping[str, Any]) -> None:
    """What is listed for each layer has as many entries as there are layers now.

    Stages are few and each has a width and a depth: where they are counted as layers, none is cut.
    """
    name = next((name for name in _MAIN_DEPTH if isinstance(settings.get(name), int)), None)
    if name is None:
        return
    before = settings[name]
    if before <= STAGES and isinstance(settings.get("depths"), list | tuple) and len(settings["depths"]) == before:
        small[name] = before
        return
    for entry, value in small.items():
        if isinstance(value, list | tuple) and len(value) == before > STAGES:
            small[entry] = list(value)[: small[name]]
        elif entry == "per_layer_config" and isinstance(value, dict):
            small[entry] = {key: shrink(item) for key, item in value.items() if int(key) < small[name]}


def _without_derived(small: Settings) -> Settings:
    """Without entries that follow from others; `out_features` may also be plain widths."""
    return {
        name: value
        for name, value in small.items()
        if name not in _DROPPED or (isinstance(value, list) and all(type(item) is int for item in value)
                                    and name == "out_features")
    }  # fmt: skip


def _small_rope(rope: Settings) -> Settings:
    small = dict(rope)
    for name, value in rope.items():
        if name == "mrope_section":
            small[name] = [2, 3, 3]
        elif name in ("short_factor", "long_factor") and isinstance(value, list):
            small[name] = value[: HEAD_WIDTH // 2]
        elif isinstance(value, dict):
            small[name] = _small_rope(value)
    return small


def _without_downloads(settings: Settings) -> Settings:
    """Backbones are built from their configuration, never fetched."""
    off = {"use_pretrained_backbone": False, "use_cache": False}
    settings.update({name: value for name, value in off.items() if name in settings})
    return settings


def _is_settings(name: str, value: Any) -> bool:
    """Whether an entry is a configuration of its own."""
    if not isinstance(value, dict) or name == "quantization_config":
        return False
    return "model_type" in value or name.endswith("_config")


def _rule_for(name: str) -> Rule | None:
    return next((rule for rule in INTEGER_RULES if rule.pattern.search(name)), None)

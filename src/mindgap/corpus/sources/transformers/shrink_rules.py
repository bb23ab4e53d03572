"""The new value of each number in a transformers configuration that is made tiny.

A table of rules, tried in order on each entry's name; the first that matches gives the entry's new value.
Values are chosen so that they fit each other: width 64 = 4 heads of 16, rotary halves of 8, and so on.
"""

from __future__ import annotations

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
Change: TypeAlias = Callable[[str, int, Mapping[str, Any]], int]


@dataclass(frozen=True, slots=True)
class Rule:
    """How to change integers whose name matches."""

    pattern: re.Pattern[str]
    change: Change
    is_depth: bool = False
    """Whether it may be cut without breaking what other entries were tuned to."""


def at_most(limit: int) -> Change:
    return lambda name, value, settings: min(value, limit)


def exactly(number: int) -> Change:
    """This number; zero stays, because it switches a part of the model off."""
    return lambda name, value, settings: number if value else 0


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


def image(name: str, value: int, settings: Mapping[str, Any]) -> int:
    """Four patches per side, but at least what strided stems need."""
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
    _rule(r"^num_kv_shared_layers$", exactly(0)),
    _rule(r"^rotary_dim$", exactly(HEAD_WIDTH)),
    _rule(r"^qk_rope_head_dim$", exactly(HEAD_WIDTH // 2)),
    _rule(r"^qk_nope_head_dim$", exactly(HEAD_WIDTH)),
    _rule(r"^qk_head_dim$", exactly(HEAD_WIDTH + HEAD_WIDTH // 2)),
    _rule(r"^head_dim$", _head_width),
    _rule(r"(vocab_size|vocab_size_per_layer_input|hash_buckets|_vocab)$", at_most(VOCABULARY), True),
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
    _rule(r"experts_per_tok(en)?$|moe_top_?k$|^top_?k$|^moe_k$|num_selected_experts$", at_most(2), True),
    _rule(r"^(n_group|topk_group|num_expert_group)$", exactly(1)),
    _rule(r"^(mamba_)?(n|num)_groups$", at_most(2)),
    _rule(r"^(image|img)_size$", image),
    _rule(r"^sliding_window$", at_most(8)),  # shorter than the sequences, so that it is seen
    _rule(r"^(prediction|context)_length$", at_most(16)),
    _rule(r"^upsample_groups$", at_most(WIDTH)),  # one for each channel
    _rule(r"^base_channels$", at_most(32)),  # normalised in 32 groups
    _rule(r"^(num_queries|num_query_tokens|num_latents)$", at_most(16)),
)  # fmt: skip


def rule_for(name: str) -> Rule | None:
    """The rule for the integers of this name."""
    return next((rule for rule in INTEGER_RULES if rule.pattern.search(name)), None)

"""Any transformers configuration made tiny: the same architecture with small numbers.

`shrink_rules` changes single numbers; this module keeps lists, sub-configurations and entries that depend on each
other consistent.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Mapping
from typing import Any, Final, TypeAlias

from mindgap.corpus.sources.transformers.shrink_rules import DEPTH, HEAD_WIDTH, VOCABULARY, image, rule_for

STAGES: Final = 5
"""Hierarchical models have at most this many stages; a longer list has one entry per layer."""

_OPEN: Final = 1 << 20
"""Stands for a number that a configuration leaves open: every rule cuts it."""

_LEFT_OPEN: Final[dict[str, dict[str, Any]]] = {
    "xmod": {"default_language": "en_XX"},  # one of its adapters
    "chameleon": {"vocabulary_map": {"<image>": 7}},
    "emu3": {"vocabulary_map": {"<image>": 7, "<|extra_200|>": 8}},
    "timm_backbone": {"backbone": "resnet18"},
}
"""Entries that a few families leave open but need, by model type."""

Settings: TypeAlias = dict[str, Any]

_LAYER_KINDS: Final = re.compile(
    r"(layer_types|layers_block_type|block_types|attention_types|mlp_layer_types|layers_type)$"
)
_STAGE_DEPTHS: Final = re.compile(r"^(depths|num_blocks|layers)$")
_STAGE_WIDTHS: Final = re.compile(r"(hidden_sizes|embed_dims?|channels|dims?|hidden_dims|block_out_channels)$")
_CHOSEN_LAYERS: Final = re.compile(r"(^|_)(out_indices|out_layers|feature_layers?|visual_indexes|layers_to_use)$")
"""Lists of layers whose results are used, and single ones."""
_MAIN_DEPTH: Final = ("num_hidden_layers", "n_layer", "num_layers", "depth")
_DROPPED: Final = ("out_features", "_out_features", "_out_indices", "stage_names",
                   "transformers_version", "dtype", "torch_dtype", "_name_or_path")  # fmt: skip
"""Entries that follow from others, or say where a configuration came from."""


def shrink(settings: Mapping[str, Any]) -> Settings:
    """A configuration with every width, depth and vocabulary cut, sub-configurations included."""
    small = {name: _small_value(name, value, settings) for name, value in settings.items()}
    _fit_depth(small, settings)
    _fit_widths(small)
    head_width = HEAD_WIDTH // 2 if "qk_rope_head_dim" in small else HEAD_WIDTH
    for name, default in (("pad_token_id", 0), ("vocab_size", VOCABULARY), ("head_dim", head_width)):
        if name in small and small[name] is None:  # left open until a tokenizer is known
            small[name] = default
    for name in ("rope_parameters", "rope_scaling"):
        if isinstance(small.get(name), dict):
            small[name] = _small_rope(small[name], small)
    return _without_downloads(_without_derived(small))


def shallow(settings: Mapping[str, Any]) -> Settings:
    """A configuration with only depth, vocabulary and experts cut: widths stay as published."""
    small: Settings = {}
    for name, value in settings.items():
        rule = rule_for(name)
        kept = _LAYER_KINDS.search(name) or _STAGE_DEPTHS.search(name) or (rule is not None and rule.is_depth)
        if _is_settings(name, value):
            small[name] = shallow(value)
        else:
            small[name] = _small_value(name, value, settings) if kept else value
    _fit_depth(small, settings)
    return _without_downloads(_without_derived(small))


def with_sections(settings: Mapping[str, Any]) -> Settings:
    """A small configuration whose rotary embedding is split over time, height and width."""
    small = shrink(settings)
    _add_sections(small)
    return small


def _add_sections(small: Settings) -> None:
    for name, value in small.items():
        if _is_settings(name, value):
            _add_sections(value)
    if "num_key_value_heads" in small:
        rope = small.get("rope_parameters") or {"rope_type": "default", "rope_theta": 10000.0}
        small["rope_parameters"] = _small_rope({**rope, "mrope_section": []}, small)


def completed(settings: Mapping[str, Any]) -> Settings:
    """A small configuration without open numbers, with the results of four layers where some are chosen."""
    whole = {name: _completed(name, value, settings) for name, value in settings.items()}
    return shrink(whole)


def _completed(name: str, value: Any, settings: Mapping[str, Any]) -> Any:
    if _is_settings(name, value):
        return {inner: _completed(inner, item, value) for inner, item in value.items()}
    given = _LEFT_OPEN.get(settings.get("model_type", ""), {})
    if value is None and name in given:
        return given[name]
    if name == "out_indices" and isinstance(value, list) and len(value) == 1 and _depth_name(settings):
        return [1, 2, 3, 4]
    rule = rule_for(name) if value is None else None
    return rule.change(name, _OPEN, settings) if rule is not None else value


def _small_value(name: str, value: Any, settings: Mapping[str, Any]) -> Any:
    if _is_settings(name, value):
        return shrink(value)
    if isinstance(value, int) and not isinstance(value, bool):
        rule = rule_for(name)
        return value if rule is None else rule.change(name, value, settings)
    if isinstance(value, list | tuple) and value and all(type(item) is int for item in value):
        return _small_list(name, list(value), settings)
    return copy.deepcopy(value)


def _small_list(name: str, values: list[int], settings: Mapping[str, Any]) -> list[int]:
    if name in ("image_size", "img_size"):
        return [image(name, value, settings) for value in values]
    if _STAGE_DEPTHS.search(name):
        return [min(value, 1) for value in values]
    if _STAGE_WIDTHS.search(name) and len(values) > 1 and min(values) >= 32:
        factor = min(values) // 16
        return [value // factor for value in values]
    return values


def _fit_depth(small: Settings, settings: Mapping[str, Any]) -> None:
    """What is counted or listed by layer fits the new depth."""
    _one_layer_of_each_kind(small)
    _follow_depth(small, settings)
    _choose_layers(small, settings)


def _one_layer_of_each_kind(small: Settings) -> None:
    """Lists with one kind per layer keep each kind once, and the depth follows."""
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
    """Cut lists with one entry per layer to the new depth.

    Stages are few and each has a width and a depth: where they are counted as layers, none is cut.
    """
    name = _depth_name(settings)
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


def _depth_name(settings: Mapping[str, Any]) -> str | None:
    """The entry that counts the layers."""
    return next((name for name in _MAIN_DEPTH if type(settings.get(name)) is int), None)


def _choose_layers(small: Settings, settings: Mapping[str, Any]) -> None:
    """As many chosen layers as before, and enough layers for them, whether they are counted from zero or one."""
    depth = _depth_name(settings)
    for name, value in small.items():
        if not _CHOSEN_LAYERS.search(name):
            continue
        if isinstance(value, list | tuple) and value and all(type(item) is int for item in value):
            if depth is not None and settings[depth] > STAGES:
                small[depth] = max(small[depth], len(value) + 1)
                small[name] = list(range(1, len(value) + 1))
            elif depth is None and max(value) > STAGES:  # of another part: those that its first layers give
                small[name] = [sorted(value).index(item) for item in value]
        elif type(value) is int and value >= DEPTH:
            small[name] = DEPTH - 1


def _fit_widths(small: Settings) -> None:
    """Widths that are the product of others stay so."""
    heads = small.get("num_heads")
    if isinstance(heads, list | tuple) and heads and type(small.get("embed_dim")) is int:
        small["embed_dim"] = HEAD_WIDTH * heads[0]  # the width of the first stage
    if type(small.get("expand")) is int and type(heads) is int and "head_dim" in small and "hidden_size" in small:
        small["num_heads"] = small["hidden_size"] * small["expand"] // HEAD_WIDTH
    ratio = small.get("pixel_shuffle_ratio")
    if isinstance(ratio, float) and "hidden_size" in small:  # four patches are laid side by side
        small["intermediate_size"] = int(small["hidden_size"] / ratio**2)


def _without_derived(small: Settings) -> Settings:
    """Without entries that follow from others; `out_features` may also be plain widths."""
    return {
        name: value
        for name, value in small.items()
        if name not in _DROPPED or (isinstance(value, list) and all(type(item) is int for item in value)
                                    and name == "out_features")
    }  # fmt: skip


def _small_rope(rope: Settings, small: Mapping[str, Any]) -> Settings:
    """A rotary embedding for small heads; `small` is the configuration that it belongs to."""
    fitted = dict(rope)
    rotated, plain = small.get("qk_rope_head_dim"), small.get("qk_nope_head_dim")
    if rotated and plain and "partial_rotary_factor" in rope:
        fitted["partial_rotary_factor"] = rotated / (rotated + plain)
    width = small.get("head_dim")
    half = int((width if type(width) is int else HEAD_WIDTH) * (rope.get("partial_rotary_factor") or 1)) // 2
    for name, value in rope.items():
        if name == "mrope_section":
            side = half * 3 // 8
            fitted[name] = [half - 2 * side, side, side]
        elif name in ("short_factor", "long_factor") and isinstance(value, list):
            fitted[name] = value[:half]
        elif isinstance(value, dict):
            fitted[name] = _small_rope(value, small)
    return fitted


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

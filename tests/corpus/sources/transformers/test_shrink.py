from __future__ import annotations

import pytest

from mindgap.corpus.sources.transformers.shrink import completed, shallow, shrink, with_sections

PUBLISHED = {
    "model_type": "made-up",
    "hidden_size": 4096,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "intermediate_size": 14336,
    "vocab_size": 128_256,
    "eos_token_id": 128_009,
    "hidden_act": "silu",
    "tie_word_embeddings": True,
    "use_cache": True,
    "layer_types": ["sliding", "full"] * 16,
    "rope_parameters": {"rope_type": "longrope", "short_factor": [1.0] * 64},
    "vision_config": {"image_size": 336, "patch_size": 14, "hidden_sizes": [128, 256], "depths": [3, 27]},
    "out_features": ["stage4"],
}


def test_every_size_is_cut_and_sizes_fit_each_other() -> None:
    small = shrink(PUBLISHED)
    assert small["hidden_size"] == 64 and small["num_attention_heads"] == 4 and small["num_key_value_heads"] == 2
    assert small["eos_token_id"] < small["vocab_size"] == 512
    assert small["layer_types"] == ["sliding", "full"] and small["num_hidden_layers"] == 2
    assert len(small["rope_parameters"]["short_factor"]) == 8
    assert small["vision_config"]["image_size"] == 64
    assert small["vision_config"]["hidden_sizes"] == [16, 32] and small["vision_config"]["depths"] == [1, 1]
    assert small["hidden_act"] == "silu" and small["tie_word_embeddings"] is True
    assert small["use_cache"] is False and "out_features" not in small
    assert PUBLISHED["hidden_size"] == 4096


def test_a_shallow_configuration_keeps_its_widths() -> None:
    small = shallow(PUBLISHED)
    assert small["hidden_size"] == 4096 and small["num_hidden_layers"] == 2 and small["vocab_size"] == 512
    assert small["vision_config"]["hidden_sizes"] == [128, 256] and small["vision_config"]["depths"] == [1, 1]


def test_rotary_sections_are_added() -> None:
    assert with_sections(PUBLISHED)["rope_parameters"]["mrope_section"] == [2, 3, 3]


def test_multi_query_attention_stays_so() -> None:
    assert shrink({"num_attention_heads": 32, "num_key_value_heads": 1})["num_key_value_heads"] == 1
    assert shrink({"num_attention_heads": 32, "num_key_value_heads": 32})["num_key_value_heads"] == 4


def test_what_is_left_open_gets_a_number_and_nothing_is_added() -> None:
    assert shrink({"pad_token_id": None, "vocab_size": None}) == {"pad_token_id": 0, "vocab_size": 512}
    assert shrink({"hidden_size": 768}) == {"hidden_size": 64}


def test_what_is_listed_for_each_layer_follows_the_depth() -> None:
    small = shrink({"num_hidden_layers": 30, "kv_per_layer": [8] * 30, "per_layer_config": {"05": {"head_dim": 512}}})
    assert small["num_hidden_layers"] == 2 and small["kv_per_layer"] == [8, 8] and small["per_layer_config"] == {}


def test_stages_that_are_counted_as_layers_are_all_kept() -> None:
    small = shrink({"num_hidden_layers": 4, "depths": [3, 4, 6, 3], "hidden_sizes": [64, 128, 320, 512]})
    assert small["num_hidden_layers"] == 4 == len(small["hidden_sizes"]) and small["depths"] == [1, 1, 1, 1]


def test_an_open_head_width_gets_a_number() -> None:
    assert shrink({"head_dim": None, "num_attention_heads": 32})["head_dim"] == 16


def test_rotary_sections_follow_the_part_that_is_rotated() -> None:
    half = {"num_key_value_heads": 8, "head_dim": 128, "rope_parameters": {"partial_rotary_factor": 0.5}}
    assert with_sections({"text_config": half})["text_config"]["rope_parameters"]["mrope_section"] == [2, 1, 1]
    latent = {"qk_rope_head_dim": 64, "qk_nope_head_dim": 64, "rope_parameters": {"partial_rotary_factor": 0.5}}
    assert shrink(latent)["rope_parameters"]["partial_rotary_factor"] == pytest.approx(8 / 24)


def test_chosen_layers_exist_and_are_as_many_as_before() -> None:
    small = shrink({"num_hidden_layers": 12, "out_indices": [3, 5, 7, 11], "out_features": ["stage3"]})
    assert small == {"num_hidden_layers": 5, "out_indices": [1, 2, 3, 4]}
    stages = {"depths": [2, 2, 6, 2], "num_layers": 4, "out_indices": [1, 2, 3, 4]}
    assert shrink(stages)["out_indices"] == [1, 2, 3, 4]
    assert shrink({"vision_feature_layer": [24, 18]})["vision_feature_layer"] == [1, 0]


def test_widths_that_are_products_stay_so() -> None:
    mamba = shrink({"hidden_size": 4096, "expand": 2, "num_heads": 128, "head_dim": 64})
    assert mamba["hidden_size"] * mamba["expand"] == mamba["num_heads"] * mamba["head_dim"]
    assert shrink({"embed_dim": 96, "num_heads": [3, 6, 12, 24]})["embed_dim"] == 48


def test_a_part_that_a_model_does_without_stays_out() -> None:
    assert shrink({"qk_rope_head_dim": 0})["qk_rope_head_dim"] == 0


def test_open_numbers_are_completed() -> None:
    small = completed({"model_type": "xmod", "default_language": None, "decoder_hidden_size": None, "label": None})
    assert small["default_language"] == "en_XX" and small["decoder_hidden_size"] == 64 and small["label"] is None
    assert completed({"num_hidden_layers": 12, "out_indices": [12]})["out_indices"] == [1, 2, 3, 4]

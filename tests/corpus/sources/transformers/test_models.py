from __future__ import annotations

import sys

import pytest
import torch

from mindgap.corpus.load import load
from mindgap.errors import ModelError
from mindgap.records.source import Source


def run(spec: str, **options: object) -> tuple[torch.nn.Module, dict[str, torch.Tensor], torch.Tensor]:
    loaded = load(Source(spec, **options))  # type: ignore[arg-type]
    assert isinstance(loaded.model, torch.nn.Module) and not loaded.model.training
    with torch.no_grad():
        output = loaded.model(**loaded.kwargs)
    first = next(value for value in output.values() if isinstance(value, torch.Tensor))
    return loaded.model, dict(loaded.kwargs), first


@pytest.mark.parametrize(
    ("spec", "class_name"),
    [
        ("transformers:bert", "BertModel"),
        ("transformers:bert:base", "BertModel"),
        ("transformers:bert:sequence-classification", "BertForSequenceClassification"),
        ("transformers:bert:BertForMaskedLM", "BertForMaskedLM"),
        ("transformers:gpt2:causal_lm", "GPT2LMHeadModel"),
        ("transformers:mixtral", "MixtralModel"),
        ("transformers:clip", "CLIPModel"),
    ],
)
def test_tiny_models_run(spec: str, class_name: str) -> None:
    model, kwargs, output = run(spec)
    assert type(model).__name__ == class_name
    assert sum(parameter.numel() for parameter in model.parameters()) < 2_000_000
    assert output.isfinite().all() and output.std() > 0.01
    assert all(type(value) is torch.Tensor for value in kwargs.values())


def test_two_towers_are_fed_both() -> None:
    assert set(run("transformers:clip")[1]) == {"input_ids", "pixel_values"}


@pytest.mark.parametrize(
    ("spec", "wanted"),
    [
        ("transformers:llama4:Llama4ForCausalLM", {"input_ids"}),  # made from the text part of its type
        ("transformers:pix2struct", {"flattened_patches", "decoder_input_ids"}),
        ("transformers:siglip2_vision_model", {"pixel_values", "pixel_attention_mask", "spatial_shapes"}),
        ("transformers:metaclip_2", {"input_ids", "pixel_values"}),  # asked for by a failure
        ("transformers:beit:BeitForSemanticSegmentation", {"pixel_values"}),  # wants four layers' results
        ("transformers:xmod", {"input_ids"}),  # wants a language
    ],
)
def test_inputs_and_numbers_that_a_configuration_leaves_open(spec: str, wanted: set[str]) -> None:
    assert set(run(spec)[1]) == wanted


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("transformers:bark:BarkModel", "has no forward"),
        ("transformers:sam2_video:Sam2VideoModel", "keeps a session between frames"),
    ],
)
def test_what_is_not_a_function_of_tensors_says_so(spec: str, message: str) -> None:
    with pytest.raises(ModelError, match=message):
        load(Source(spec))


def test_seed_and_dtype() -> None:
    _, first, left = run("transformers:bert", seed=1)
    _, again, same = run("transformers:bert", seed=1)
    _, other, _ = run("transformers:bert", seed=2)
    assert torch.equal(left, same) and torch.equal(first["input_ids"], again["input_ids"])
    assert not torch.equal(first["input_ids"], other["input_ids"])
    _, kwargs, output = run("transformers:bert", dtype="float16")
    assert output.dtype == torch.float16 and kwargs["input_ids"].dtype == torch.int64


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("transformers:brt", r"did you mean transformers:bert\?"),
        ("transformers:bert:maskd-lm", r"did you mean transformers:bert:masked-lm\?"),
        ("transformers:bert:zzzzzz", "it has base, "),
        ("transformers:", "has no model ''"),
    ],
)
def test_unknown_names(spec: str, message: str) -> None:
    with pytest.raises(ModelError, match=message):
        load(Source(spec))


def test_a_model_that_cannot_be_made_small(monkeypatch: pytest.MonkeyPatch) -> None:
    from mindgap.corpus.sources.transformers import models

    def refuse(settings: object) -> dict[str, object]:
        raise ValueError("no way")

    monkeypatch.setattr(models, "_RECIPES", (refuse,))
    with pytest.raises(ModelError, match=r"could not be made small[^$]*no way"):
        load(Source("transformers:bert"))


def test_a_model_that_stays_too_large_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    from mindgap.corpus.sources.transformers import models

    monkeypatch.setattr(models, "_RECIPES", (dict,))
    monkeypatch.setattr(models, "MOST_PARAMETERS", 1000)
    with pytest.raises(ModelError, match="more than 1000"):
        load(Source("transformers:bert"))


def test_a_missing_package_says_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "transformers", None)
    with pytest.raises(ModelError, match=r"pip install 'mindgap\[transformers\]'"):
        load(Source("transformers:bert"))

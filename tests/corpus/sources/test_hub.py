from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

from mindgap.corpus.load import load
from mindgap.corpus.sources import hub
from mindgap.errors import ModelError, Untrusted
from mindgap.records.source import Source


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny classifier as `save_pretrained` writes it."""
    made = load(Source("transformers:bert:sequence-classification"))
    folder = tmp_path_factory.mktemp("hub") / "tiny-bert"
    made.model.save_pretrained(folder)  # type: ignore[union-attr]
    return folder


def copy_of(saved: Path, target: Path) -> Path:
    target.mkdir()
    for path in saved.iterdir():
        (target / path.name).write_bytes(path.read_bytes())
    return target


def test_a_directory_gives_the_saved_class_and_weights(saved: Path) -> None:
    loaded = load(Source("tiny-bert", directory=str(saved.parent)))
    made = load(Source("transformers:bert:sequence-classification"))
    assert type(loaded.model).__name__ == "BertForSequenceClassification"
    with torch.no_grad():
        logits = loaded.model(**loaded.kwargs).logits  # type: ignore[misc]
        expected = made.model(**loaded.kwargs).logits  # type: ignore[misc]
    assert torch.equal(logits, expected)


def test_the_prefix_works_for_a_directory_and_dtype_casts(saved: Path) -> None:
    loaded = load(Source(f"hub:{saved}", dtype="bfloat16"))
    assert next(loaded.model.parameters()).dtype == torch.bfloat16  # type: ignore[union-attr]


def test_an_unknown_architecture_falls_back_to_the_base_model(saved: Path, tmp_path: Path) -> None:
    folder = copy_of(saved, tmp_path / "model")
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, "architectures": ["NobodyKnows"]}))
    assert type(load(Source(str(folder))).model).__name__ == "BertModel"


def test_pickled_weights_need_trust(saved: Path, tmp_path: Path) -> None:
    folder = copy_of(saved, tmp_path / "model")
    from safetensors.torch import load_file

    weights = load_file(folder / "model.safetensors")
    (folder / "model.safetensors").unlink()
    torch.save(weights, folder / "pytorch_model.bin")
    with pytest.raises(Untrusted, match="--trust"):
        load(Source(str(folder)))
    assert load(Source(str(folder), trust=True)).model is not None


def test_code_of_the_models_own_needs_trust(saved: Path, tmp_path: Path) -> None:
    folder = copy_of(saved, tmp_path / "model")
    config = json.loads((folder / "config.json").read_text())
    config.update(model_type="of-its-own", auto_map={"AutoConfig": "own.Config", "AutoModel": "own.Model"})
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "own.py").write_text(f"open({str(tmp_path / 'executed')!r}, 'w')\n")
    with pytest.raises(Untrusted, match="code of its own"):
        load(Source(str(folder)))
    assert not (tmp_path / "executed").exists()


@pytest.mark.parametrize("damage", ["weights", "config"])
def test_a_damaged_directory(saved: Path, tmp_path: Path, damage: str) -> None:
    folder = copy_of(saved, tmp_path / "model")
    if damage == "weights":
        (folder / "model.safetensors").unlink()
    else:
        (folder / "config.json").write_text("{")
    with pytest.raises(ModelError, match="the model in model cannot be read"):
        load(Source(str(folder)))


def test_a_name_that_cannot_be_fetched(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hub, "_is_reachable", lambda: False)
    with pytest.raises(ModelError, match=r"cannot be read from the hub[^$]*check the name and the network"):
        load(Source("hub:nobody/has-this-model"))

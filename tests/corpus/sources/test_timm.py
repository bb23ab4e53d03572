from __future__ import annotations

import sys

import pytest
import torch

from mindgap.corpus.load import load
from mindgap.corpus.sources import timm as source
from mindgap.errors import ModelError
from mindgap.records.source import Source


def test_a_model_is_small_alive_and_repeatable() -> None:
    first, again = load(Source("timm:mobilenetv3_small_050")), load(Source("timm:mobilenetv3_small_050"))
    assert isinstance(first.model, torch.nn.Module) and isinstance(again.model, torch.nn.Module)
    assert first.args[0].shape == (1, 3, 96, 96) and not first.model.training
    with torch.no_grad():
        out, same = first.model(*first.args), again.model(*again.args)
    assert torch.equal(out, same) and out.isfinite().all() and out.std() > 0.01


def test_the_seed_changes_the_weights_and_dtype_casts() -> None:
    first = load(Source("timm:lcnet_035", seed=1, dtype="bfloat16"))
    other = load(Source("timm:lcnet_035", seed=2))
    left = next(first.model.parameters())  # type: ignore[union-attr]
    right = next(other.model.parameters())  # type: ignore[union-attr]
    assert left.dtype == torch.bfloat16 == first.args[0].dtype and not torch.equal(left.float(), right)


def test_a_model_that_needs_its_size_gets_the_next_one(monkeypatch: pytest.MonkeyPatch) -> None:
    class OnlyLarge(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            if x.shape[-1] < 128:
                raise RuntimeError("too small")
            return x

    timm = source.library.import_library("timm")
    monkeypatch.setattr(timm, "create_model", lambda name, **options: OnlyLarge())
    assert load(Source("timm:lcnet_035")).args[0].shape[-1] == 128


def test_a_model_that_never_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    timm = source.library.import_library("timm")
    monkeypatch.setattr(timm, "create_model", lambda name, **options: torch.nn.Linear(7, 1))
    with pytest.raises(ModelError, match="timm:lcnet_035 does not run"):
        load(Source("timm:lcnet_035"))


def test_an_unknown_name_suggests_the_nearest() -> None:
    with pytest.raises(ModelError, match=r"did you mean timm:resnet18\?"):
        load(Source("timm:resnet81"))


def test_a_missing_package_says_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "timm", None)
    with pytest.raises(ModelError, match=r"pip install 'mindgap\[timm\]'"):
        load(Source("timm:resnet18"))

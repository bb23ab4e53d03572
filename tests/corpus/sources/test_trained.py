from __future__ import annotations

import importlib.util

import pytest

from mindgap.corpus import registry
from mindgap.corpus.load import load
from mindgap.corpus.registry import DOMAINS, Library
from mindgap.corpus.roundtrip import roundtrip
from mindgap.errors import ModelError
from mindgap.records.source import Source

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("facenet_pytorch") is None, reason="needs pip install 'mindgap[trained]'"
)


def test_a_small_model_becomes_an_exact_program() -> None:
    result = roundtrip(Source("trained:mtcnn-rnet"))
    assert result.exact, result.reason


def test_offers() -> None:
    source = registry.find(Source("trained:mtcnn-rnet"))
    assert isinstance(source, Library)
    offers = list(source.offers())
    assert "trained:mtcnn-rnet" in {offer.spec for offer in offers} and offers == list(source.offers())
    assert {offer.domain for offer in offers} <= set(DOMAINS) and len({offer.spec for offer in offers}) == len(offers)


def test_an_unknown_name_suggests_the_nearest() -> None:
    with pytest.raises(ModelError, match="did you mean"):
        load(Source("trained:mtcnn-qnet"))


def test_trained_weights_do_not_follow_the_seed() -> None:
    import torch

    first, other = (load(Source("trained:mtcnn-rnet", seed=seed)).model for seed in (1, 2))
    assert isinstance(first, torch.nn.Module) and isinstance(other, torch.nn.Module)
    assert all(torch.equal(left, right) for left, right in zip(first.parameters(), other.parameters()))

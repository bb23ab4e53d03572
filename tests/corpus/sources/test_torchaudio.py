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
    importlib.util.find_spec("torchaudio") is None, reason="needs pip install 'mindgap[torchaudio]'"
)


def test_a_small_model_becomes_an_exact_program() -> None:
    result = roundtrip(Source("torchaudio:Wav2Letter"))
    assert result.exact, result.reason


def test_offers() -> None:
    source = registry.find(Source("torchaudio:Wav2Letter"))
    assert isinstance(source, Library)
    offers = list(source.offers())
    assert "torchaudio:Wav2Letter" in {offer.spec for offer in offers} and offers == list(source.offers())
    assert {offer.domain for offer in offers} <= set(DOMAINS) and len({offer.spec for offer in offers}) == len(offers)


def test_an_unknown_name_suggests_the_nearest() -> None:
    with pytest.raises(ModelError, match="did you mean"):
        load(Source("torchaudio:Wav3Letter"))

from __future__ import annotations

import importlib.util

import pytest

from mindgap.corpus import registry
from mindgap.corpus.load import load
from mindgap.corpus.registry import DOMAINS, Library
from mindgap.corpus.roundtrip import roundtrip
from mindgap.corpus.sources.pytorchcv import LARGE, STRIDE, smaller
from mindgap.errors import ModelError
from mindgap.records.source import Source

needs_pytorchcv = pytest.mark.skipif(
    importlib.util.find_spec("pytorchcv") is None, reason="needs pip install 'mindgap[pytorchcv]'"
)


@needs_pytorchcv
def test_a_small_model_becomes_an_exact_program() -> None:
    result = roundtrip(Source("pytorchcv:resnet10"))
    assert result.exact, result.reason


@needs_pytorchcv
def test_offers() -> None:
    source = registry.find(Source("pytorchcv:resnet10"))
    assert isinstance(source, Library)
    offers = list(source.offers())
    assert "pytorchcv:resnet10" in {offer.spec for offer in offers} and offers == list(source.offers())
    assert {offer.domain for offer in offers} <= set(DOMAINS) and len({offer.spec for offer in offers}) == len(offers)


@needs_pytorchcv
def test_an_unknown_name_suggests_the_nearest() -> None:
    with pytest.raises(ModelError, match="did you mean"):
        load(Source("pytorchcv:resnet1o"))


@pytest.mark.parametrize("size", [(224, 224), (480, 480), (1024, 2048), (473, 473)])
def test_only_large_images_become_smaller_and_keep_their_stride(size: tuple[int, int]) -> None:
    found = smaller(size)
    assert (found == size) == (size[0] * size[1] <= LARGE or size[0] % (2 * STRIDE) != 0)
    assert size[0] * found[1] == size[1] * found[0]
    assert found == size or (found[0] * found[1] <= LARGE // 4 and found[0] % STRIDE == 0)

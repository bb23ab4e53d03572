from __future__ import annotations

import pytest

from mindgap.corpus.load import load
from mindgap.corpus.plan import libraries
from mindgap.errors import ModelError
from mindgap.records.source import Source
from tests.corpus.requiring import require


def test_a_text_tower_that_would_be_fetched() -> None:
    require(libraries()["open_clip"])
    with pytest.raises(ModelError, match="needs network"):
        load(Source("open_clip:xlm-roberta-base-ViT-B-32"))

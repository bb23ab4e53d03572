from __future__ import annotations

import torch

from mindgap.corpus.load import load
from mindgap.corpus.plan import libraries
from mindgap.records.source import Source
from tests.corpus.requiring import require


def test_trained_weights_do_not_follow_the_seed() -> None:
    require(libraries()["trained"], "facenet_pytorch")
    first, other = (load(Source("trained:mtcnn-rnet", seed=seed)).model for seed in (1, 2))
    assert isinstance(first, torch.nn.Module) and isinstance(other, torch.nn.Module)
    assert all(torch.equal(left, right) for left, right in zip(first.parameters(), other.parameters()))

"""Loading a model, whatever a user calls it."""

from __future__ import annotations

from dataclasses import replace

import torch

from mindgap.corpus import registry
from mindgap.corpus.casting import in_precision
from mindgap.corpus.loaded import Loaded
from mindgap.corpus.weights import made_of
from mindgap.records.source import Source


def load(source: Source) -> Loaded:
    """The model that a spec names, with inputs that fit it; raises ModelError or Untrusted."""
    model_source = registry.find(source)
    torch.manual_seed(source.seed)
    loaded = in_precision(model_source.load(source), source.dtype)
    return replace(loaded, made=made_of(loaded.model), seed=source.seed)

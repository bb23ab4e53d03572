"""Loading a model, whatever a user calls it."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch

from mindgap.corpus import files, registry
from mindgap.corpus.casting import in_precision
from mindgap.corpus.loaded import Loaded
from mindgap.corpus.weights import made_of
from mindgap.errors import ModelError
from mindgap.records.source import Source


def load(source: Source) -> Loaded:
    """The model that a spec names, with inputs that fit it; raises ModelError or Untrusted."""
    model_source = registry.find(source)
    torch.manual_seed(source.seed)
    loaded = in_precision(model_source.load(source), source.dtype)
    return replace(loaded, made=made_of(loaded.model), seed=source.seed)


def load_model(source: Source) -> Callable[..., Any]:
    """The user's own model, made again in this process (`Source.loader`)."""
    if source.pickled is not None:
        files.make_importable(source)
        # Bytes that the user's own process made from its own live object; never read from a file.
        model: Callable[..., Any] = pickle.loads(source.pickled)
        return model
    loaded = load(source).model
    if loaded is None:
        raise ModelError(f"{source.spec} holds a program and no model")
    return loaded

"""Digest and value of what a recipe makes, without making it again and again."""

from __future__ import annotations

from typing import Final

from mindgap.program.graph import digest
from mindgap.program.made import Recipe, recreate
from mindgap.records.tensors import TensorMeta
from mindgap.variants.values import Value, of_tensor

_MOST: Final = 4096
_KNOWN: dict[tuple[Recipe, TensorMeta], tuple[str, Value]] = {}


def look_at(recipe: Recipe, meta: TensorMeta) -> tuple[str, Value]:
    """The digest of a tensor that a recipe makes, and what is known of it; small constants come again and again."""
    key = (recipe, meta)
    found = _KNOWN.get(key)
    if found is None:
        tensor = recreate(recipe, meta)
        if len(_KNOWN) >= _MOST:
            _KNOWN.clear()
        found = _KNOWN[key] = (digest(tensor), of_tensor(tensor))
    return found

"""A model in another floating precision."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import torch

from mindgap.corpus.loaded import Loaded
from mindgap.corpus.spelling import refuse_precision
from mindgap.errors import ModelError
from mindgap.program.graph import Program, map_leaves
from mindgap.records.source import PRECISIONS
from mindgap.records.tensors import DTYPES


def precision(dtype: str) -> torch.dtype:
    """The torch dtype of a name that `--dtype` takes."""
    refuse_precision(dtype)
    return DTYPES[dtype]


def in_precision(loaded: Loaded, dtype: str | None) -> Loaded:
    """The model and its floating inputs in this precision; a function has only its inputs cast."""
    if dtype is None:
        return loaded
    if loaded.program is not None:
        _require(loaded.program, dtype)
        return loaded
    target = precision(dtype)
    model = loaded.model.to(target) if isinstance(loaded.model, torch.nn.Module) else loaded.model
    args, kwargs = cast_inputs(loaded.args, loaded.kwargs, target)
    return replace(loaded, model=model, args=args, kwargs=kwargs)


def cast_inputs(
    args: tuple[Any, ...], kwargs: Mapping[str, Any], dtype: torch.dtype
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The same arguments with every floating tensor cast, its layout kept."""

    def cast(leaf: Any) -> Any:
        floating = isinstance(leaf, torch.Tensor) and leaf.is_floating_point()
        return leaf.to(dtype) if floating else leaf

    return map_leaves(args, cast), {key: map_leaves(value, cast) for key, value in kwargs.items()}


def _require(program: Program, dtype: str) -> None:
    precision(dtype)
    metas = [item.meta for item in program.inputs] + [item.meta for item in program.constants]
    present = {meta.dtype for meta in metas} & set(PRECISIONS)
    if present - {dtype}:
        raise ModelError(
            f"{program.name} is a program in {', '.join(sorted(present))}: it cannot become {dtype}",
            cause="a program's precision is part of its graph",
            hint=f"export the source model in {dtype}",
        )

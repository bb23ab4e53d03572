"""The vocabulary in calls of torch itself: with it, the table must mean exactly what eager means."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch


def torch_words() -> Callable[..., Any]:
    def over(name: str) -> Callable[..., Any]:
        return lambda x, dims, keep: getattr(torch, name)(x, dim=dims, keepdim=keep) if x.ndim else x

    def prod(x: torch.Tensor, dims: tuple[int, ...], keep: bool) -> torch.Tensor:
        for dim in sorted(dims, reverse=True):
            x = x.prod(dim, keepdim=keep)
        return x

    words: dict[str, Callable[..., Any]] = {
        **{name: over(name) for name in ("sum", "mean", "amax", "amin", "any", "all")},
        "prod": prod,
        "array": torch.clone,
        "tensor": lambda x, dtype: x,
        "cast": lambda x, dtype: x.to(dtype),
        "full": lambda shape, value, dtype: torch.full(shape, value, dtype=dtype),
        "full_as": lambda like, value, other: torch.full(like.shape, value, dtype=other.dtype),
        "constant": lambda values, shape, like: torch.tensor(values, dtype=like.dtype).reshape(shape),
        "range": lambda start, end, step, dtype: (
            torch.arange(start, end, step, dtype=dtype)
            if step > 0
            else torch.arange(end + 1, start + 1, dtype=dtype).flip(0)
        ),
        "floor_divide": torch.floor_divide,
        "trunc_divide": lambda x, y: torch.div(x, y, rounding_mode="trunc"),
        "transpose": torch.permute,
        "concatenate": torch.cat,
        "take": lambda x, index, dim: x.index_select(dim, index.flatten()).unflatten(dim, index.shape),
        "take_along": lambda x, index, dim: torch.gather(x, dim, index),
        "pad": lambda x, amounts, value: torch.constant_pad_nd(
            x, [n for pair in reversed(amounts) for n in pair], value
        ),
        "argmax": lambda x, dim, keep: torch.argmax(x, dim, keep),
        "argmin": lambda x, dim, keep: torch.argmin(x, dim, keep),
        "gelu": torch.nn.functional.gelu,
        "gelu_tanh": lambda x: torch.nn.functional.gelu(x, approximate="tanh"),
        "layer_norm": lambda x, shape, w, b, eps: torch.layer_norm(x, shape, w, b, eps),
        "convolution": lambda x, w, stride, pad, dilation, groups: torch.convolution(
            x, w, None, stride, pad, dilation, False, [0] * len(stride), groups
        ),
        "argsort": lambda x, dim, descending: torch.sort(x, dim, descending)[1],
        "scatter": torch.scatter,
        "scatter_add": torch.scatter_add,
        "index_put": lambda x, indices, values, accumulate: x.index_put(indices, values, accumulate),
    }

    def say(word: str, *args: Any) -> Any:
        return words[word](*args) if word in words else getattr(torch, word)(*args)

    return say

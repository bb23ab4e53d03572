"""The vocabulary of `table.py` in calls of Apple's MLX, with torch and mlx alone: a script can hold this text."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch


def mlx_words() -> Callable[..., Any]:
    """What MLX says for each word."""
    import mlx.core as mx
    from mlx import nn

    mx.set_default_device(mx.cpu)
    names = "float64 float32 float16 bfloat16 int64 int32 int16 int8 uint8 complex64"
    inverse = "acos acosh asin asinh atan atanh atan2"
    kinds = {getattr(torch, name): getattr(mx, name) for name in names.split()} | {torch.bool: mx.bool_}

    def kind_of(dtype: torch.dtype) -> Any:
        if dtype not in kinds:
            raise NotImplementedError(f"{dtype} is not supported by MLX")
        return kinds[dtype]

    def array(tensor: torch.Tensor) -> Any:
        kind = kind_of(tensor.dtype)
        tensor = tensor.detach().contiguous()
        if tensor.dtype is torch.bfloat16:
            return mx.array(tensor.view(torch.uint16).numpy()).view(mx.bfloat16)
        return mx.array(tensor.numpy(), dtype=kind)

    def tensor(found: Any, dtype: torch.dtype) -> torch.Tensor:
        mx.eval(found)
        if found.dtype == mx.bfloat16:
            return torch.from_numpy(np.array(found.view(mx.uint16))).view(torch.bfloat16)
        return torch.from_numpy(np.array(found))

    def layer_norm(x: Any, shape: tuple[int, ...], weight: Any, bias: Any, eps: float) -> Any:
        flat = mx.reshape(x, (*x.shape[: len(x.shape) - len(shape)], -1))
        weight, bias = (part if part is None else mx.reshape(part, (-1,)) for part in (weight, bias))
        return mx.reshape(mx.fast.layer_norm(flat, weight, bias, eps), x.shape)

    def convolution(x: Any, w: Any, stride: Any, pad: Any, dilation: Any, groups: int) -> Any:
        rank = len(x.shape) - 2
        last = (0, *range(2, rank + 2), 1)
        y = mx.conv_general(
            mx.transpose(x, last), mx.transpose(w, last), list(stride), list(pad), list(dilation), groups=groups
        )
        return mx.transpose(y, (0, rank + 1, *range(1, rank + 1)))

    def places(x: Any, dim: int, index: Any) -> tuple[Any, ...]:
        grid = list(mx.meshgrid(*[mx.arange(size) for size in index.shape], indexing="ij"))
        grid[dim] = index
        return tuple(grid)

    def scatter(x: Any, dim: int, index: Any, source: Any) -> Any:
        result = mx.array(x)
        result[places(x, dim, index)] = source
        return result

    def index_put(x: Any, indices: tuple[Any, ...], values: Any, accumulate: bool) -> Any:
        if accumulate:
            return x.at[indices].add(values)
        result = mx.array(x)
        result[indices] = values
        return result

    def trunc_divide(x: Any, y: Any) -> Any:
        if mx.issubdtype(x.dtype, mx.floating):
            return mx.trunc(mx.divide(x, y))
        floor = mx.floor_divide(x, y)  # of integers: one more where it rounded away from zero
        inexact = mx.not_equal(mx.multiply(floor, y), x)
        return floor + mx.logical_and(inexact, mx.not_equal(x < 0, y < 0)).astype(x.dtype)

    def argsort(x: Any, dim: int, descending: bool) -> Any:
        order = mx.argsort(x, axis=dim)
        return mx.take(order, mx.arange(x.shape[dim] - 1, -1, -1), axis=dim) if descending else order

    same = (
        "abs ceil cos cosh erf exp expm1 floor isinf isnan log log10 log1p log2 logical_not reciprocal round rsqrt "
        "sigmoid sign sin sinh sqrt tan tanh remainder maximum minimum logical_and logical_or matmul reshape "
        "transpose broadcast_to concatenate where floor_divide tile trunc bitwise_and bitwise_or bitwise_xor"
    )
    words: dict[str, Callable[..., Any]] = {
        **{name: getattr(mx, name) for name in same.split()},
        **{name: getattr(mx, f"arc{name[1:]}") for name in inverse.split()},
        "neg": mx.negative, "relu": nn.relu, "add": mx.add, "sub": mx.subtract, "mul": mx.multiply, "div": mx.divide,
        "pow": mx.power, "eq": mx.equal, "ne": mx.not_equal, "lt": mx.less, "le": mx.less_equal, "gt": mx.greater,
        "ge": mx.greater_equal, "logical_xor": mx.logical_xor, "bitwise_not": mx.bitwise_invert,
        "trunc_divide": trunc_divide,
        "cast": lambda x, dtype: x if x.dtype == kind_of(dtype) else x.astype(kind_of(dtype)),
        "array": array, "tensor": tensor,
        "full": lambda shape, value, dtype: mx.full(shape, value, dtype=kind_of(dtype)),
        "full_as": lambda like, value, other: mx.full(like.shape, value, dtype=other.dtype),
        "constant": lambda values, shape, like: mx.reshape(mx.array(values, dtype=like.dtype), shape),
        "range": lambda start, end, step, dtype: mx.arange(start, end, step, dtype=kind_of(dtype)),
        "take": lambda x, index, dim: mx.take(x, index, axis=dim),
        "take_along": lambda x, index, dim: mx.take_along_axis(x, index, axis=dim),
        "pad": lambda x, amounts, value: mx.pad(x, amounts, constant_values=value),
        "sum": lambda x, dims, keep: mx.sum(x, axis=dims, keepdims=keep),
        "mean": lambda x, dims, keep: mx.mean(x, axis=dims, keepdims=keep),
        "prod": lambda x, dims, keep: mx.prod(x, axis=dims, keepdims=keep),
        "amax": lambda x, dims, keep: mx.max(x, axis=dims, keepdims=keep),
        "amin": lambda x, dims, keep: mx.min(x, axis=dims, keepdims=keep),
        "any": lambda x, dims, keep: mx.any(x, axis=dims, keepdims=keep),
        "all": lambda x, dims, keep: mx.all(x, axis=dims, keepdims=keep),
        "argmax": lambda x, dim, keep: mx.argmax(x, axis=dim, keepdims=keep),
        "argmin": lambda x, dim, keep: mx.argmin(x, axis=dim, keepdims=keep),
        "cumsum": lambda x, dim: mx.cumsum(x, axis=dim),
        "softmax": lambda x, dim: mx.softmax(x, axis=dim),
        "log_softmax": lambda x, dim: nn.log_softmax(x, axis=dim),
        "gelu": nn.gelu, "gelu_tanh": nn.gelu_approx, "layer_norm": layer_norm, "convolution": convolution,
        "argsort": argsort, "scatter": scatter, "index_put": index_put,
        "scatter_add": lambda x, dim, index, source: x.at[places(x, dim, index)].add(source),
    }  # fmt: skip

    def say(word: str, *args: Any) -> Any:
        if word not in words:
            raise NotImplementedError(f"{word} is not supported by MLX")
        return words[word](*args)

    return say

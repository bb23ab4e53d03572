"""The vocabulary of `table.py` in calls of Huawei's MindSpore, with torch and mindspore alone.

`mint` is MindSpore's interface in the manner of torch. It is written for Ascend first: where it has no kernel for the
CPU, the older `mindspore.ops` says the same. A script can hold this text.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch


def mindspore_words() -> Callable[..., Any]:
    """What MindSpore says for each word."""
    import mindspore as ms
    from mindspore import Tensor, mint, ops

    ms.set_device("CPU")
    ms.set_context(mode=ms.PYNATIVE_MODE, pynative_synchronize=True)  # an error belongs to the call that caused it
    names = "float64 float32 float16 bfloat16 int64 int32 int16 int8 uint8 complex64 complex128"
    kinds = {getattr(torch, name): getattr(ms, name) for name in names.split()} | {torch.bool: ms.bool_}
    functional = mint.nn.functional

    def kind_of(dtype: torch.dtype) -> Any:
        if dtype not in kinds:
            raise NotImplementedError(f"{dtype} is not supported by MindSpore")
        return kinds[dtype]

    def array(tensor: torch.Tensor) -> Any:
        kind = kind_of(tensor.dtype)
        tensor = tensor.detach().contiguous()
        return Tensor((tensor.float() if tensor.dtype is torch.bfloat16 else tensor).numpy()).astype(kind)

    def tensor(found: Any, dtype: torch.dtype) -> torch.Tensor:
        if found.dtype == ms.bfloat16:
            return torch.from_numpy(np.array(found.astype(ms.float32).asnumpy())).bfloat16()
        return torch.from_numpy(np.array(found.asnumpy()))

    def first(*calls: Callable[..., Any]) -> Callable[..., Any]:
        """The first of these that the CPU has a kernel for."""

        def call(*args: Any) -> Any:
            refused: Exception | None = None
            for one in calls:
                try:
                    return one(*args)
                except (RuntimeError, TypeError, ValueError, SystemError) as error:
                    refused = refused or error
            raise NotImplementedError(f"no CPU kernel, it is not supported by MindSpore: {refused}") from refused

        return call

    def layer_norm(x: Any, shape: tuple[int, ...], weight: Any, bias: Any, eps: float) -> Any:
        weight = ops.ones(shape, x.dtype) if weight is None else weight
        bias = ops.zeros(shape, x.dtype) if bias is None else bias
        axis = len(x.shape) - len(shape)
        older = ops.LayerNorm(axis, axis, eps)
        return first(lambda: functional.layer_norm(x, shape, weight, bias, eps), lambda: older(x, weight, bias)[0])()

    def convolution(x: Any, w: Any, stride: Any, pad: Any, dilation: Any, groups: int) -> Any:
        name = f"conv{len(x.shape) - 2}d"
        new, old = getattr(functional, name, None), getattr(ops, name, None)
        calls = [] if new is None else [lambda: new(x, w, None, stride, pad, dilation, groups)]
        calls += [] if old is None else [lambda: old(x, w, None, stride, "pad", pad, dilation, groups)]
        return first(*calls)()

    def scatter(reduction: str) -> Callable[..., Any]:
        return lambda x, dim, index, source: ops.tensor_scatter_elements(x, index, source, dim, reduction)

    def over(name: str) -> Callable[..., Any]:
        """A reduction over several dimensions."""
        new, old = getattr(mint, name, None), getattr(ops, name, None)
        calls = [(lambda x, dims, keep, one=one: one(x, dims, keep)) for one in (new, old) if one is not None]
        return lambda x, dims, keep: x if not len(x.shape) else first(*calls)(x, dims, keep)

    def prod(x: Any, dims: tuple[int, ...], keep: bool) -> Any:
        for dim in sorted(dims, reverse=True):
            x = ops.prod(x, dim, keep)
        return x

    def elements(x: Any, indices: tuple[Any, ...]) -> tuple[tuple[Any, ...], tuple[int, ...]]:
        """The elements of x that indices of its first dimensions select, one by one, and the shape of them all."""
        chosen = np.broadcast_shapes(*(tuple(index.shape) for index in indices))
        rest = tuple(x.shape[len(indices) :])
        size = (*chosen, *rest)
        spread = [index.reshape(*index.shape, *(1 for _ in rest)) for index in indices]
        for at, length in enumerate(rest):
            spread.append(Tensor(np.arange(length)).reshape(length, *(1 for _ in rest[at + 1 :])))
        return tuple(ops.broadcast_to(index, size).reshape(-1) for index in spread), size

    def index_put(x: Any, indices: tuple[Any, ...], values: Any, accumulate: bool) -> Any:
        if any(isinstance(index, slice) for index in indices):
            raise NotImplementedError("index_put with gaps is not supported by mindgap's words")
        if any(index.dtype == ms.bool_ for index in indices):
            return x.index_put(indices, values, accumulate)
        flat, size = elements(x, indices)  # its kernel on the CPU takes an index per dimension, and values in one row
        return x.index_put(flat, ops.broadcast_to(values, size).reshape(-1), accumulate)

    same = (
        "abs acos acosh asin asinh atan atanh ceil cos cosh erf exp expm1 floor isinf isnan log log10 log1p log2 "
        "logical_not neg reciprocal round rsqrt sigmoid sign sin sinh sqrt tan tanh trunc remainder fmod pow maximum "
        "minimum atan2 eq ne lt le gt ge logical_and logical_or logical_xor bitwise_and bitwise_or bitwise_xor "
        "bitwise_not add sub mul div matmul where"
    )
    older = {"abs": ops.abs, "matmul": ops.matmul}

    def both(name: str) -> Callable[..., Any]:
        calls = [getattr(home, name, None) for home in (mint, ops)] + [older.get(name)]
        return first(*[call for call in calls if call is not None])

    words: dict[str, Callable[..., Any]] = {
        **{name: both(name) for name in same.split()},
        **{name: over(name) for name in ("sum", "mean", "amax", "amin", "any", "all")},
        "relu": functional.relu, "prod": prod,
        # It has no kernel for integers on the CPU; of booleans it is the logical one, as torch says.
        "bitwise_not": lambda x: mint.logical_not(x) if x.dtype == ms.bool_ else both("bitwise_not")(x),
        "floor_divide": first(lambda x, y: mint.div(x, y, rounding_mode="floor"), ops.floor_divide),
        "trunc_divide": lambda x, y: mint.div(x, y, rounding_mode="trunc"),
        "cast": lambda x, dtype: x if x.dtype == kind_of(dtype) else x.astype(kind_of(dtype)),
        "array": array, "tensor": tensor,
        "full": lambda shape, value, dtype: Tensor(np.full(shape, value)).astype(kind_of(dtype)),
        "full_as": lambda like, value, other: Tensor(np.full(like.shape, value)).astype(other.dtype),
        "constant": lambda values, shape, like: Tensor(np.reshape(values, shape)).astype(like.dtype),
        "range": lambda start, end, step, dtype: Tensor(np.arange(start, end, step)).astype(kind_of(dtype)),
        "reshape": lambda x, shape: x.reshape(shape), "transpose": mint.permute, "broadcast_to": mint.broadcast_to,
        "concatenate": lambda parts, dim: mint.cat(tuple(parts), dim),
        "take": lambda x, index, dim: ops.gather(x, index, dim),
        "take_along": first(lambda x, index, dim: mint.gather(x, dim, index),
                            lambda x, index, dim: ops.gather_elements(x, dim, index)),
        "tile": first(mint.tile, ops.tile),
        "pad": lambda x, amounts, value: ops.pad(x, [n for pair in reversed(amounts) for n in pair], value=value),
        "argmax": first(mint.argmax, ops.argmax), "argmin": first(mint.argmin, ops.argmin),
        "cumsum": first(mint.cumsum, ops.cumsum), "softmax": first(functional.softmax, ops.softmax),
        "log_softmax": first(functional.log_softmax, ops.log_softmax),
        "gelu": first(functional.gelu, ops.gelu),
        "gelu_tanh": first(lambda x: functional.gelu(x, approximate="tanh"), lambda x: ops.gelu(x, "tanh")),
        "layer_norm": layer_norm, "convolution": convolution, "scatter": scatter("none"), "scatter_add": scatter("add"),
        "argsort": lambda x, dim, descending: first(
            lambda: mint.sort(x, dim=dim, descending=descending)[1], lambda: ops.sort(x, dim, descending)[1])(),
        "index_put": index_put,
    }  # fmt: skip

    def say(word: str, *args: Any) -> Any:
        if word not in words:
            raise NotImplementedError(f"{word} is not supported by MindSpore")
        return words[word](*args)

    return say

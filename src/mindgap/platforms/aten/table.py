"""Core-ATen operators in the words of an array library, with torch alone: a script can hold this text.

`say` is the runtime: `say("maximum", x, y)` is its own call of that name. Operands have been brought to the type in
which torch computes; results are brought to the type that torch returns, since libraries number positions as they like.
An operator in `COMPOSED` is put together here from several calls: its meaning is this table's, not the runtime's.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

Say = Callable[..., Any]
"""A call of the runtime by its name in the vocabulary."""

TABLE: dict[str, Callable[..., Any]] = {}
"""By the operator's name without its overload."""

COMPOSED: set[str] = set()
"""Operators whose meaning this table decides: a difference may be its own."""


def meaning(*names: str, composed: bool = False) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Registers what some operators mean."""

    def register(function: Callable[..., Any]) -> Callable[..., Any]:
        for name in names:
            TABLE[name] = function
            if composed:
                COMPOSED.add(name)
        return function

    return register


_UNARY = (
    "abs acos acosh asin asinh atan atanh ceil cos cosh erf exp expm1 floor isinf isnan log log10 log1p log2 "
    "logical_not neg reciprocal relu round rsqrt sigmoid sign sin sinh sqrt tan tanh trunc bitwise_not"
)
_BINARY = (
    "mul remainder fmod pow maximum minimum atan2 eq ne lt le gt ge logical_and logical_or logical_xor bitwise_and "
    "bitwise_or bitwise_xor"
)
UNARY, BINARY = set(_UNARY.split()), set(_BINARY.split())
PROMOTED = {*BINARY, "add", "sub", "div", "where", "clamp", "hardtanh"}
"""Operators that bring their operands to one type first."""

for _name in (*UNARY, *BINARY):
    meaning(_name)(lambda say, *args, _name=_name: say(_name, *args))


@meaning("add")
def _add(say: Say, x: Any, y: Any, alpha: float = 1) -> Any:
    return say("add", x, y if alpha == 1 else say("mul", y, alpha))


@meaning("sub")
def _sub(say: Say, x: Any, y: Any, alpha: float = 1) -> Any:
    return say("sub", x, y if alpha == 1 else say("mul", y, alpha))


@meaning("div")
def _div(say: Say, x: Any, y: Any, rounding_mode: str | None = None) -> Any:
    return say({None: "div", "floor": "floor_divide", "trunc": "trunc_divide"}[rounding_mode], x, y)


@meaning("where")
def _where(say: Say, condition: Any, x: Any, y: Any) -> Any:
    return say("where", condition, x, y)


@meaning("clamp", "hardtanh")
def _clamp(say: Say, x: Any, low: Any = None, high: Any = None) -> Any:
    x = x if low is None else say("maximum", x, low)
    return x if high is None else say("minimum", x, high)


@meaning("mm", "bmm")
def _product(say: Say, x: Any, y: Any) -> Any:
    return say("matmul", x, y)


@meaning("addmm")
def _addmm(say: Say, z: Any, x: Any, y: Any, beta: float = 1, alpha: float = 1) -> Any:
    product = say("matmul", x, y)
    product = product if alpha == 1 else say("mul", product, alpha)
    return say("add", z if beta == 1 else say("mul", z, beta), product)


@meaning("clone", "alias", "detach", "lift_fresh_copy")
def _same(say: Say, x: Any, **_: Any) -> Any:
    return x


@meaning("_to_copy")
def _cast(say: Say, x: Any, dtype: torch.dtype | None = None, **_: Any) -> Any:
    return x if dtype is None else say("cast", x, dtype)


@meaning("view", "_unsafe_view", "reshape")
def _view(say: Say, x: Any, shape: Sequence[int]) -> Any:
    return say("reshape", x, tuple(shape))


@meaning("permute")
def _permute(say: Say, x: Any, dims: Sequence[int]) -> Any:
    return say("transpose", x, tuple(dim % len(x.shape) for dim in dims))


@meaning("expand")
def _expand(say: Say, x: Any, shape: Sequence[int], **_: Any) -> Any:
    new = len(shape) - len(x.shape)
    return say("broadcast_to", x, tuple(x.shape[i - new] if size == -1 else size for i, size in enumerate(shape)))


@meaning("unsqueeze")
def _unsqueeze(say: Say, x: Any, dim: int) -> Any:
    dim %= len(x.shape) + 1
    return say("reshape", x, (*x.shape[:dim], 1, *x.shape[dim:]))


@meaning("squeeze")
def _squeeze(say: Say, x: Any, dims: int | Sequence[int]) -> Any:
    gone = {dim % max(len(x.shape), 1) for dim in ([dims] if isinstance(dims, int) else dims)}
    return say("reshape", x, tuple(size for dim, size in enumerate(x.shape) if dim not in gone or size != 1))


@meaning("as_strided", composed=True)
def _as_strided(
    say: Say, x: Any, shape: Sequence[int], strides: Sequence[int], offset: int | None = None, *, given: torch.Tensor
) -> Any:
    """`given` says how torch lays x out; an array of the runtime has no such order."""
    order = sorted(range(given.dim()), key=lambda dim: (given.stride(dim), given.shape[dim]), reverse=True)
    compact = given.permute(order).is_contiguous()
    if not compact or given.numel() * given.element_size() != given.untyped_storage().nbytes():
        raise NotImplementedError("as_strided of a part of a tensor is not supported by mindgap's table")
    flat = say("reshape", say("transpose", x, tuple(order)) if order else x, (-1,))
    places = torch.arange(given.numel()).as_strided(tuple(shape), tuple(strides), offset or 0).flatten()
    if not places.equal(torch.arange(given.numel())):
        flat = say("take", flat, say("array", places), 0)
    return say("reshape", flat, tuple(shape))


@meaning("select")
def _select(say: Say, x: Any, dim: int, index: int) -> Any:
    cut: list[Any] = [slice(None)] * len(x.shape)
    cut[dim] = index % x.shape[dim]
    return x[tuple(cut)]


@meaning("slice")
def _slice(say: Say, x: Any, dim: int = 0, start: int | None = None, end: int | None = None, step: int = 1) -> Any:
    cut = [slice(None)] * len(x.shape)
    first, last, _ = slice(start, end).indices(x.shape[dim])
    cut[dim] = slice(first, max(first, last), step)
    return x[tuple(cut)]


@meaning("cat")
def _cat(say: Say, parts: Sequence[Any], dim: int = 0) -> Any:
    kept = [part for part in parts if tuple(part.shape) != (0,)] or parts[:1]  # torch skips these, whatever the rest is
    return say("concatenate", kept, dim % len(kept[0].shape))


@meaning("split_with_sizes")
def _split(say: Say, x: Any, sizes: Sequence[int], dim: int = 0) -> Any:
    ends = [sum(sizes[: i + 1]) for i in range(len(sizes))]
    return [_slice(say, x, dim, end - size, end) for end, size in zip(ends, sizes)]


@meaning("flip")
def _flip(say: Say, x: Any, dims: Sequence[int]) -> Any:
    for dim in dims:
        x = say("take", x, say("range", x.shape[dim] - 1, -1, -1, torch.int64), dim % len(x.shape))
    return x


@meaning("repeat")
def _repeat(say: Say, x: Any, times: Sequence[int]) -> Any:
    return say("tile", say("reshape", x, (*[1] * (len(times) - len(x.shape)), *x.shape)), tuple(times))


@meaning("constant_pad_nd")
def _pad(say: Say, x: Any, pad: Sequence[int], value: float = 0) -> Any:
    amounts = [(0, 0)] * (len(x.shape) - len(pad) // 2)
    amounts += [(pad[i], pad[i + 1]) for i in range(len(pad) - 2, -1, -2)]
    for dim, (before, after) in enumerate(amounts):
        if before < 0 or after < 0:
            x = _slice(say, x, dim, max(-before, 0), x.shape[dim] - max(-after, 0))
    return say("pad", x, tuple((max(before, 0), max(after, 0)) for before, after in amounts), value)


@meaning("full")
def _full(say: Say, shape: Sequence[int], value: Any, *, expected: torch.dtype, **_: Any) -> Any:
    return say("full", tuple(shape), value, expected)


@meaning("full_like")
def _full_like(say: Say, x: Any, value: Any, *, expected: torch.dtype, **_: Any) -> Any:
    return say("full", tuple(x.shape), value, expected)


@meaning("scalar_tensor")
def _scalar(say: Say, value: Any, *, expected: torch.dtype, **_: Any) -> Any:
    return say("full", (), value, expected)


@meaning("arange")
def _arange(say: Say, start: Any, end: Any, step: Any = 1, *, expected: torch.dtype, **_: Any) -> Any:
    return say("range", start, end, step, expected)


def _dims(x: Any, dims: int | Sequence[int] | None) -> tuple[int, ...]:
    rank = len(x.shape)
    if dims is None or (not isinstance(dims, int) and not len(dims)):
        return tuple(range(rank))
    return tuple(dim % max(rank, 1) for dim in ([dims] if isinstance(dims, int) else dims))


@meaning("sum", "mean", "prod")
def _sum(say: Say, x: Any, dims: Any = None, keep: bool = False, *, node: str, expected: torch.dtype, **_: Any) -> Any:
    return say(node, say("cast", x, expected), _dims(x, dims), keep)


@meaning("amax", "amin", "any", "all")
def _extreme(say: Say, x: Any, dims: Any = None, keep: bool = False, *, node: str, **_: Any) -> Any:
    return say(node, x, _dims(x, dims), keep)


@meaning("argmax", "argmin")
def _position(say: Say, x: Any, dim: int | None = None, keep: bool = False, *, node: str, **_: Any) -> Any:
    if dim is None:
        found = say(node, say("reshape", x, (-1,)), 0, False)
        return say("reshape", found, (1,) * len(x.shape)) if keep else found
    return say(node, x, dim % len(x.shape), keep)


@meaning("max", "min")
def _max(say: Say, x: Any, dim: int | None = None, keep: bool = False, *, node: str, **_: Any) -> Any:
    if dim is None:
        return say(f"a{node}", x, _dims(x, None), False)
    dim %= len(x.shape)
    return say(f"a{node}", x, (dim,), keep), say(f"arg{node}", x, dim, keep)


@meaning("linalg_vector_norm", composed=True)
def _norm(
    say: Say, x: Any, order: float = 2, dims: Any = None, keep: bool = False, *, expected: torch.dtype, **_: Any
) -> Any:
    axes = _dims(x, dims)
    x = say("cast", x, _wide(expected))
    if order == 0:
        return say("sum", say("cast", say("ne", x, 0), _wide(expected)), axes, keep)
    if order == 2:
        return say("sqrt", say("sum", say("mul", x, x), axes, keep))
    size = say("abs", x)
    if abs(order) == math.inf:
        return say("amax" if order > 0 else "amin", size, axes, keep)
    if order == 1:
        return say("sum", size, axes, keep)
    return say("pow", say("sum", say("pow", size, order), axes, keep), 1 / order)


def _wide(dtype: torch.dtype) -> torch.dtype:
    """The type in which torch adds up."""
    return dtype if dtype.itemsize > 2 else torch.float32


@meaning("var", composed=True)
def _var(say: Say, x: Any, dims: Any = None, correction: float = 1, keepdim: bool = False, **_: Any) -> Any:
    axes = _dims(x, dims)
    centred = say("sub", x, say("mean", x, axes, True))
    count = math.prod(x.shape[axis] for axis in axes)
    return say("div", say("sum", say("mul", centred, centred), axes, keepdim), max(count - (correction or 0), 0))


@meaning("cumsum")
def _cumsum(say: Say, x: Any, dim: int, *, expected: torch.dtype, **_: Any) -> Any:
    return say("cumsum", say("cast", x, expected), dim % max(len(x.shape), 1))


@meaning("_softmax")
def _softmax(say: Say, x: Any, dim: int, half_to_float: bool = False) -> Any:
    return say("softmax", x, dim % max(len(x.shape), 1))


@meaning("_log_softmax")
def _log_softmax(say: Say, x: Any, dim: int, half_to_float: bool = False) -> Any:
    return say("log_softmax", x, dim % max(len(x.shape), 1))


@meaning("sort", composed=True)
def _sort(say: Say, x: Any, dim: int = -1, descending: bool = False, **_: Any) -> Any:
    dim %= len(x.shape)
    order = say("argsort", x, dim, descending)
    return say("take_along", x, order, dim), order


@meaning("topk", composed=True)
def _topk(say: Say, x: Any, k: int, dim: int = -1, largest: bool = True, sorted: bool = True) -> Any:
    values, order = _sort(say, x, dim, largest)
    return _slice(say, values, dim, 0, k), _slice(say, order, dim, 0, k)


@meaning("gather")
def _gather(say: Say, x: Any, dim: int, index: Any, **_: Any) -> Any:
    dim %= len(x.shape)
    for other, size in enumerate(index.shape):  # torch reads only as far as the index goes
        x = x if other == dim or x.shape[other] == size else _slice(say, x, other, 0, size)
    return say("take_along", x, index, dim)


@meaning("index_select")
def _index_select(say: Say, x: Any, dim: int, index: Any) -> Any:
    return say("take", x, index, dim % len(x.shape))


@meaning("embedding")
def _embedding(say: Say, table: Any, index: Any, *_: Any, **__: Any) -> Any:
    return say("take", table, index, 0)


@meaning("_embedding_bag_forward_only", "_embedding_bag", composed=True)
def _embedding_bag(
    say: Say,
    table: Any,
    indices: Any,
    offsets: Any,
    scale_gradient: bool = False,
    mode: int = 0,
    sparse: bool = False,
    weights: Any = None,
    include_last: bool = False,
    padding: int = -1,
    *,
    given: torch.Tensor,
) -> Any:
    count, bags = indices.shape[0], offsets.shape[0] - include_last
    rows = say("cast", say("take", table, indices, 0), _wide(given.dtype))
    if weights is not None:
        rows = say("mul", rows, say("reshape", say("cast", weights, _wide(given.dtype)), (count, 1)))
    place = say("reshape", say("range", 0, count, 1, torch.int64), (1, count))
    offsets = say("cast", offsets, torch.int64)
    if not include_last:
        offsets = say("concatenate", [offsets, say("full", (1,), count, torch.int64)], 0)
    starts, ends = _slice(say, offsets, 0, 0, bags), _slice(say, offsets, 0, 1, bags + 1)
    inside = say("logical_and", say("ge", place, say("reshape", starts, (bags, 1))),
                 say("lt", place, say("reshape", ends, (bags, 1))))  # fmt: skip
    if padding >= 0:
        kept = say("reshape", say("ne", indices, padding), (1, count))
        inside = say("logical_and", inside, kept)
    size = say("sum", say("cast", inside, _wide(given.dtype)), (1,), True)
    mask, rows = say("reshape", inside, (bags, count, 1)), say("reshape", rows, (1, count, table.shape[1]))
    absent = say("full", (), -math.inf if mode == 2 else 0.0, _wide(given.dtype))
    chosen = say("where", mask, rows, absent)
    if mode == 2:
        nothing = say("full", (), 0.0, _wide(given.dtype))
        return say("where", say("gt", size, 0), say("amax", chosen, (1,), False), nothing), None, None, None
    total = say("sum", chosen, (1,), False)
    if mode == 1:
        total = say("div", total, say("maximum", size, say("full", (), 1.0, _wide(given.dtype))))
    return total, None, None, None


@meaning("index")
def _index(say: Say, x: Any, indices: Sequence[Any]) -> Any:
    return x[tuple(slice(None) if index is None else index for index in indices)]


@meaning("scatter_add", "scatter", composed=True)
def _scatter(say: Say, x: Any, dim: int, index: Any, source: Any, *, node: str, **_: Any) -> Any:
    if not hasattr(source, "shape"):
        source = say("full_as", index, source, x)
    for other, size in enumerate(index.shape):
        source = source if source.shape[other] == size else _slice(say, source, other, 0, size)
    return say(node, x, dim % len(x.shape), index, source)


@meaning("index_put", composed=True)
def _index_put(say: Say, x: Any, indices: Sequence[Any], values: Any, accumulate: bool = False) -> Any:
    return say("index_put", x, tuple(slice(None) if i is None else i for i in indices), values, accumulate)


@meaning("gelu")
def _gelu(say: Say, x: Any, approximate: str = "none") -> Any:
    return say("gelu" if approximate == "none" else "gelu_tanh", x)


@meaning("leaky_relu", composed=True)
def _leaky_relu(say: Say, x: Any, slope: float = 0.01) -> Any:
    return say("where", say("gt", x, 0), x, say("mul", x, slope))


@meaning("elu", composed=True)
def _elu(say: Say, x: Any, alpha: float = 1, scale: float = 1, input_scale: float = 1) -> Any:
    below = say("mul", say("expm1", say("mul", x, input_scale)), alpha * scale)
    return say("where", say("gt", x, 0), say("mul", x, scale), below)


@meaning("native_layer_norm")
def _layer_norm(say: Say, x: Any, shape: Sequence[int], weight: Any, bias: Any, eps: float) -> Any:
    return say("layer_norm", x, tuple(shape), weight, bias, eps), None, None


def _as_channels(say: Say, x: Any, rank: int) -> Any:
    return say("reshape", x, (1, -1, *[1] * (rank - 2)))


@meaning("_native_batch_norm_legit_no_training", composed=True)
def _batch_norm(say: Say, x: Any, w: Any, b: Any, mean: Any, var: Any, momentum: float, eps: float) -> Any:
    rank = len(x.shape)
    scale = say("rsqrt", say("add", _as_channels(say, var, rank), eps))
    y = say("mul", say("sub", x, _as_channels(say, mean, rank)), scale)
    y = y if w is None else say("mul", y, _as_channels(say, w, rank))
    return (y if b is None else say("add", y, _as_channels(say, b, rank))), None, None


@meaning("native_group_norm", composed=True)
def _group_norm(say: Say, x: Any, w: Any, b: Any, n: int, c: int, size: int, groups: int, eps: float) -> Any:
    grouped = say("reshape", x, (n, groups, -1))
    centred = say("sub", grouped, say("mean", grouped, (2,), True))
    var = say("mean", say("mul", centred, centred), (2,), True)
    y = say("reshape", say("mul", centred, say("rsqrt", say("add", var, eps))), tuple(x.shape))
    y = y if w is None else say("mul", y, _as_channels(say, w, len(x.shape)))
    return (y if b is None else say("add", y, _as_channels(say, b, len(x.shape)))), None, None


@meaning("convolution")
def _convolution(
    say: Say, x: Any, w: Any, b: Any, stride: Any, pad: Any, dilation: Any, transposed: bool, extra: Any, groups: int
) -> Any:
    if transposed:
        raise NotImplementedError("transposed convolution is not supported by mindgap's table")
    rank = len(x.shape) - 2
    sizes = [tuple(list(given) * rank)[:rank] for given in (stride, pad, dilation)]
    y = say("convolution", x, w, *sizes, groups)
    return y if b is None else say("add", y, _as_channels(say, b, rank + 2))


def _windows(say: Say, x: Any, size: Any, stride: Any, pad: Any, ceil: bool, fill: float) -> tuple[Any, Any]:
    """For each of the last two dimensions the padded input's slices that a window's elements read, stacked last."""
    kernel, steps, pads = ((list(given) * 2)[:2] for given in (size, stride or size, pad))
    counts, amounts = [], [(0, 0)] * (len(x.shape) - 2)
    for length, k, s, p in zip(x.shape[-2:], kernel, steps, pads):
        count = -((length + 2 * p - k) // -s) + 1 if ceil else (length + 2 * p - k) // s + 1
        count -= ceil and (count - 1) * s >= length + p  # the last window must start inside
        counts.append(count)
        amounts.append((p, max(0, (count - 1) * s + k - length - p)))
    padded = say("pad", x, tuple(amounts), fill)
    parts = []
    for i in range(kernel[0]):
        rows = _slice(say, padded, -2, i, i + (counts[0] - 1) * steps[0] + 1, steps[0])
        for j in range(kernel[1]):
            part = _slice(say, rows, -1, j, j + (counts[1] - 1) * steps[1] + 1, steps[1])
            parts.append(say("reshape", part, (*part.shape, 1)))
    return say("concatenate", parts, len(x.shape)), counts


@meaning("max_pool2d_with_indices", composed=True)
def _max_pool(
    say: Say, x: Any, size: Any, stride: Any = (), pad: Any = (0,), dilation: Any = (1,), ceil: bool = False
) -> Any:
    if any(step != 1 for step in dilation):
        raise NotImplementedError("dilated pooling is not supported by mindgap's table")
    windows, _ = _windows(say, x, size, stride, pad, ceil, -math.inf)
    return say("amax", windows, (len(x.shape),), False), None


@meaning("avg_pool2d", composed=True)
def _avg_pool(
    say: Say,
    x: Any,
    size: Any,
    stride: Any = (),
    pad: Any = (0,),
    ceil: bool = False,
    count_pad: bool = True,
    divisor: Any = None,
) -> Any:
    windows, counts = _windows(say, x, size, stride, pad, ceil, 0.0)
    total = say("sum", windows, (len(x.shape),), False)
    if divisor is not None:
        return say("div", total, divisor)
    kernel, steps, pads = ((list(given) * 2)[:2] for given in (size, stride or size, pad))
    per_side = []
    for length, k, s, p, count in zip(x.shape[-2:], kernel, steps, pads, counts):
        low, high = (-p, length + p) if count_pad else (0, length)
        per_side.append([min(i * s - p + k, high) - max(i * s - p, low) for i in range(count)])
    areas = [float(rows * columns) for rows in per_side[0] for columns in per_side[1]]
    return say("div", total, say("constant", areas, tuple(counts), x))


@meaning("_adaptive_avg_pool2d", composed=True)
def _adaptive(say: Say, x: Any, out: Sequence[int]) -> Any:
    cells = []
    for row in range(out[0]):
        for column in range(out[1]):
            part = x
            for dim, (at, count) in ((-2, (row, out[0])), (-1, (column, out[1]))):
                length = x.shape[dim]
                part = _slice(say, part, dim, at * length // count, -((at + 1) * length // -count))
            cells.append(say("mean", part, (len(x.shape) - 2, len(x.shape) - 1), True))
    whole = say("concatenate", cells, len(x.shape) - 1)
    return say("reshape", whole, (*x.shape[:-2], *out))


def _scales(x: Any, out: Sequence[int] | None, scales: Sequence[Any]) -> list[tuple[int, int, float]]:
    """For each of the last two dimensions its length, the new one, and how far apart its new elements are."""
    factors = list(scales[0] or (None, None)) if len(scales) == 1 else list(scales) or [None, None]
    lengths = list(x.shape[-2:])
    sizes = out or [math.floor(length * factor) for length, factor in zip(lengths, factors)]
    return [
        (length, size, 1 / factor if factor else length / size) for length, size, factor in zip(lengths, sizes, factors)
    ]


@meaning("upsample_nearest2d", composed=True)
def _nearest(say: Say, x: Any, out: Sequence[int] | None, *scales: Any) -> Any:
    for dim, (length, size, scale) in zip((-2, -1), _scales(x, out, scales)):
        step = torch.tensor(scale, dtype=torch.float32)
        places = (torch.arange(size, dtype=torch.float32) * step).floor().long().clamp(max=length - 1)
        x = say("take", x, say("array", places), dim % len(x.shape))
    return x


@meaning("upsample_bilinear2d", composed=True)
def _bilinear(
    say: Say, x: Any, out: Sequence[int] | None, align: bool, *scales: Any, expected: torch.dtype, **_: Any
) -> Any:
    if not expected.is_floating_point:
        raise NotImplementedError(f"bilinear interpolation of {expected} is not supported by mindgap's table")
    wide, rank = _wide(expected), len(x.shape)
    x = say("cast", x, wide)
    for dim, (length, size, scale) in zip((rank - 2, rank - 1), _scales(x, out, scales)):
        step = torch.tensor((length - 1) / max(size - 1, 1) if align else scale, dtype=wide)
        new = torch.arange(size, dtype=wide)
        place = new * step if align else ((new + 0.5) * step - 0.5).clamp(min=0)
        first = place.floor().long().clamp(max=length - 1)
        second = (first + 1).clamp(max=length - 1)
        shape = (size,) if dim == rank - 1 else (size, 1)
        upper = say("constant", (place - first).tolist(), shape, x)
        lower = say("constant", (1 - (place - first)).tolist(), shape, x)
        near, far = (say("take", x, say("array", at), dim) for at in (first, second))
        x = say("add", say("mul", near, lower), say("mul", far, upper))
    return x


def decomposed(exported: Any) -> Any:
    """An exported program in core ATen.

    Torch's own decomposition of attention lays its result out as (L, N, H, E), its kernel as the query is: a `view` of
    it, which is right after the kernel, is refused after the decomposition. So the layout is put right.
    """
    table = torch.export.default_decompositions()
    attention = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu.default
    theirs = table[attention]

    def as_the_kernel(query: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
        result, *rest = theirs(query, *args, **kwargs)
        order = sorted(range(query.dim()), key=lambda dim: query.stride(dim), reverse=True)
        back = [order.index(dim) for dim in range(query.dim())]
        return result.permute(order).contiguous().permute(back), *rest

    table[attention] = as_the_kernel
    return exported.run_decompositions(table)


class Graph:
    """An exported program in core ATen, interpreted with a runtime's own calls."""

    def __init__(self, exported: Any, say: Say) -> None:
        self.say = say
        self.nodes = list(exported.graph.nodes)
        signature = exported.graph_signature
        held = {**signature.inputs_to_parameters, **signature.inputs_to_buffers}
        held |= signature.inputs_to_lifted_tensor_constants
        state = {**exported.constants, **exported.state_dict}
        self.constants = {name: say("array", state[target]) for name, target in held.items()}
        self.composed = tuple(sorted({_name_of(node) for node in self._calls()} & COMPOSED))
        missing = sorted({str(node.target) for node in self._calls() if _name_of(node) not in TABLE})
        if missing:
            raise NotImplementedError(f"{', '.join(missing)} is not supported by mindgap's table")

    def _calls(self) -> list[Any]:
        skipped = (operator.getitem,)
        calls = [node for node in self.nodes if node.op == "call_function" and node.target not in skipped]
        return [node for node in calls if "_assert" not in str(node.target)]

    def run(self, tensors: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        """Results in order for the program's inputs in order."""
        given, values = iter(tensors), {}
        calls = set(self._calls())
        for node in self.nodes:
            if node.op == "placeholder":
                known = node.name in self.constants
                values[node] = self.constants[node.name] if known else self.say("array", next(given))
            elif node.op == "output":
                return [self.say("tensor", values[item], item.meta["val"].dtype) for item in node.args[0]]
            elif node.target is operator.getitem:
                values[node] = values[node.args[0]][node.args[1]]
            elif node in calls:
                values[node] = self._result(node, values)
        return []

    def _result(self, node: Any, values: Mapping[Any, Any]) -> Any:
        name, expected = _name_of(node), node.meta["val"]
        args, kwargs = list(node.args), dict(node.kwargs)
        if name in PROMOTED:
            args = _promoted(self.say, node, values)
        args, kwargs = torch.fx.map_arg((args, kwargs), lambda item: values[item])
        if name in UNARY and expected.dtype.is_floating_point:
            args = [self.say("cast", args[0], expected.dtype), *args[1:]]
        code = TABLE[name].__code__
        asked = code.co_varnames[code.co_argcount : code.co_argcount + code.co_kwonlyargcount]
        told = {"node": name, "expected": getattr(expected, "dtype", None)}
        told["given"] = next((arg.meta["val"] for arg in node.args if isinstance(arg, torch.fx.Node)), None)
        result = TABLE[name](self.say, *args, **kwargs, **{key: told[key] for key in asked if key in told})
        if isinstance(expected, torch.Tensor):
            return self.say("cast", result, expected.dtype)
        pairs = zip(result, expected)
        return [None if item is None else self.say("cast", item, fake.dtype) for item, fake in pairs]


def _name_of(node: Any) -> str:
    return str(node.target._schema.name).split("::")[1]


def _promoted(say: Say, node: Any, values: Mapping[Any, Any]) -> list[Any]:
    """Operands in the one type that torch computes in; `where` keeps its condition."""
    start = 1 if _name_of(node) == "where" else 0
    fakes = [arg.meta["val"] if isinstance(arg, torch.fx.Node) else arg for arg in node.args]
    operands = [fake for fake in fakes[start:] if isinstance(fake, torch.Tensor | int | float)]
    base = next((fake for fake in operands if isinstance(fake, torch.Tensor)), operands[0])
    kind = torch.result_type(base, base)
    for fake in operands:
        kind = torch.promote_types(kind, torch.result_type(base, fake))
    whole = not kind.is_floating_point and not kind.is_complex
    if _name_of(node) == "div" and whole and node.kwargs.get("rounding_mode") is None:
        kind = torch.get_default_dtype()
    found: list[Any] = [values[arg] for arg in node.args[:start]]
    for arg in node.args[start:]:
        if isinstance(arg, torch.fx.Node):
            found.append(say("cast", values[arg], kind))
        else:
            found.append(say("full", (), arg, kind) if isinstance(arg, int | float) else arg)
    return found

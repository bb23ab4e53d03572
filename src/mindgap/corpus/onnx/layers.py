"""Layers of ONNX in terms of torch: convolutions, pooling, normalisation, recurrence, and what is quantised."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Final

import torch
from torch.nn import functional

from mindgap.corpus.onnx.operators import OnnxCall, Tensor, onnx_operator
from mindgap.errors import UnsupportedConstruct

_CONVOLUTIONS: Final = {3: functional.conv1d, 4: functional.conv2d, 5: functional.conv3d}
_TRANSPOSED: Final[dict[int, Any]] = {3: functional.conv_transpose1d, 4: functional.conv_transpose2d,
                                      5: functional.conv_transpose3d}  # fmt: skip
_POOLS: Final[dict[int, Any]] = {3: functional.max_pool1d, 4: functional.max_pool2d, 5: functional.max_pool3d}
_MEANS: Final[dict[int, Any]] = {3: functional.avg_pool1d, 4: functional.avg_pool2d, 5: functional.avg_pool3d}


def _pads(call: OnnxCall, sizes: Sequence[int], kernel: Sequence[int], stride: Sequence[int]) -> list[int]:
    """Begins of every dimension, then ends."""
    how, dilations = call.get("auto_pad", b"NOTSET").decode(), call.get("dilations", [1] * len(kernel))
    if how in ("NOTSET", ""):
        return list(call.get("pads", [0] * (2 * len(kernel))))
    if how == "VALID":
        return [0] * (2 * len(kernel))
    begins, ends = [], []
    for size, k, s, d in zip(sizes, kernel, stride, dilations):
        total = max(0, (math.ceil(size / s) - 1) * s + (k - 1) * d + 1 - size)
        small, large = total // 2, total - total // 2
        begins.append(large if how == "SAME_LOWER" else small)
        ends.append(small if how == "SAME_LOWER" else large)
    return begins + ends


def _padded(x: Tensor, pads: Sequence[int], value: float = 0.0) -> tuple[Tensor, list[int]]:
    """The input, padded where that is uneven, and the padding that is left for the layer."""
    half = len(pads) // 2
    if list(pads[:half]) == list(pads[half:]):
        return x, list(pads[:half])
    flat = [side for axis in reversed(range(half)) for side in (pads[axis], pads[half + axis])]
    return functional.pad(x, flat, value=value), [0] * half


@onnx_operator("Conv")
def _conv(call: OnnxCall) -> Tensor:
    return _convolved(call, call[0], call[1], call[2] if call.has(2) else None)


def _convolved(call: OnnxCall, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    kernel = weight.shape[2:]
    stride = call.get("strides", [1] * len(kernel))
    x, padding = _padded(x, _pads(call, x.shape[2:], kernel, stride))
    dilation = call.get("dilations", [1] * len(kernel))
    return _CONVOLUTIONS[x.dim()](x, weight, bias, stride, padding, dilation, call.get("group", 1))


@onnx_operator("ConvTranspose")
def _transposed(call: OnnxCall) -> Tensor:
    x, weight = call[0], call[1]
    count = x.dim() - 2
    pads = list(call.get("pads", [0] * (2 * count)))
    if call.get("auto_pad", b"NOTSET") != b"NOTSET" or "output_shape" in call.attributes:
        raise UnsupportedConstruct("ConvTranspose by the size of its output")
    extra = [a + b - c for a, b, c in zip(call.get("output_padding", [0] * count), pads[:count], pads[count:])]
    if min(extra) < 0:
        raise UnsupportedConstruct("ConvTranspose that is cut unevenly")
    return _TRANSPOSED[x.dim()](  # type: ignore[no-any-return]
        x, weight, call[2] if call.has(2) else None, call.get("strides", [1] * count), pads[:count], extra,
        call.get("group", 1), call.get("dilations", [1] * count),
    )  # fmt: skip


@onnx_operator("MaxPool")
def _max_pool(call: OnnxCall) -> Tensor:
    x, kernel = call[0], call.get("kernel_shape")
    stride = call.get("strides", [1] * len(kernel))
    x, padding = _padded(x, _pads(call, x.shape[2:], kernel, stride), float("-inf"))
    dilation = call.get("dilations", [1] * len(kernel))
    if any(2 * p > k for p, k in zip(padding, kernel)):
        x, padding = functional.pad(x, [side for p in reversed(padding) for side in (p, p)], value=float("-inf")), [0]
    return _POOLS[x.dim()](x, kernel, stride, padding, dilation, bool(call.get("ceil_mode", 0)))  # type: ignore[no-any-return]


@onnx_operator("AveragePool")
def _average_pool(call: OnnxCall) -> Tensor:
    x, kernel = call[0], call.get("kernel_shape")
    stride = call.get("strides", [1] * len(kernel))
    counted = bool(call.get("count_include_pad", 0))
    padded, padding = _padded(x, _pads(call, x.shape[2:], kernel, stride))
    if padded is not x and not counted:
        raise UnsupportedConstruct("AveragePool with uneven padding that does not count")
    return _MEANS[x.dim()](padded, kernel, stride, padding, bool(call.get("ceil_mode", 0)), counted)  # type: ignore[no-any-return]


@onnx_operator("Gemm")
def _gemm(call: OnnxCall) -> Tensor:
    a, b = (call[n].t() if call.get(name, 0) else call[n] for n, name in enumerate(("transA", "transB")))
    product = call.get("alpha", 1.0) * (a @ b) if call.get("alpha", 1.0) != 1 else a @ b
    return product + call.get("beta", 1.0) * call[2] if call.has(2) else product


@onnx_operator("Einsum")
def _einsum(call: OnnxCall) -> Tensor:
    return torch.einsum(call.get("equation").decode(), *(call[n] for n in range(len(call.operands))))


@onnx_operator("BatchNormalization")
def _batch_norm(call: OnnxCall) -> Tensor:
    if call.get("training_mode", 0):
        raise UnsupportedConstruct("BatchNormalization in training")
    return functional.batch_norm(call[0], call[3], call[4], call[1], call[2], eps=call.get("epsilon", 1e-5))


@onnx_operator("InstanceNormalization")
def _instance_norm(call: OnnxCall) -> Tensor:
    return functional.instance_norm(call[0], weight=call[1], bias=call[2], eps=call.get("epsilon", 1e-5))


@onnx_operator("LayerNormalization")
def _layer_norm(call: OnnxCall) -> Tensor:
    x = call[0]
    sizes = list(x.shape[call.get("axis", -1) :])
    return functional.layer_norm(x, sizes, call[1], call[2] if call.has(2) else None, call.get("epsilon", 1e-5))


def _directions(call: OnnxCall) -> int:
    given = {"activations", "activation_alpha", "activation_beta", "clip"} & set(call.attributes)
    if given - {"activations"} or call.get("layout", 0) or (call.has(4) and call.op == "GRU" and call.get("lens")):
        raise UnsupportedConstruct(f"{call.op} with {sorted(given)[0] if given else 'another layout'}")
    direction = call.get("direction", b"forward").decode()
    if direction == "reverse":
        raise UnsupportedConstruct(f"{call.op} that runs in reverse only")
    return 2 if direction == "bidirectional" else 1


def _reordered(weight: Tensor, order: Sequence[int]) -> Tensor:
    parts = weight.chunk(len(order), dim=0)
    return torch.cat([parts[n] for n in order], dim=0)


def _parameters(call: OnnxCall, directions: int, order: Sequence[int]) -> list[Tensor]:
    """Weights and biases of each direction as torch has them."""
    found = []
    for n in range(directions):
        found += [_reordered(call[place][n], order) for place in (1, 2)]
        if call.has(3):
            found += [_reordered(part, order) for part in call[3][n].chunk(2)]
    return found


@onnx_operator("LSTM")
def _lstm(call: OnnxCall) -> tuple[Tensor, ...]:
    x, directions, hidden = call[0], _directions(call), call.get("hidden_size")
    if call.has(7):
        raise UnsupportedConstruct("LSTM with peepholes")
    weights = _parameters(call, directions, (0, 2, 3, 1))
    zeros = torch.zeros(directions, x.shape[1], hidden, dtype=x.dtype)
    state = [call[place] if call.has(place) else zeros for place in (5, 6)]
    y, h, c = torch.lstm(x, state, weights, call.has(3), 1, 0.0, False, directions == 2, False)
    return y.reshape(x.shape[0], x.shape[1], directions, hidden).permute(0, 2, 1, 3), h, c


@onnx_operator("GRU")
def _gru(call: OnnxCall) -> tuple[Tensor, ...]:
    x, directions, hidden = call[0], _directions(call), call.get("hidden_size")
    if not call.get("linear_before_reset", 0):
        raise UnsupportedConstruct("GRU that resets before its linear part")
    weights = _parameters(call, directions, (1, 0, 2))
    state = call[5] if call.has(5) else torch.zeros(directions, x.shape[1], hidden, dtype=x.dtype)
    y, h = torch.gru(x, state, weights, call.has(3), 1, 0.0, False, directions == 2, False)
    return y.reshape(x.shape[0], x.shape[1], directions, hidden).permute(0, 2, 1, 3), h


def _along(x: Tensor, scale: Tensor, axis: int) -> Tensor:
    """A scale per channel in the shape that fits beside a value."""
    return scale.reshape([-1 if n == axis % x.dim() else 1 for n in range(x.dim())]) if scale.numel() > 1 else scale


@onnx_operator("QuantizeLinear")
def _quantised(call: OnnxCall) -> Tensor:
    x, scale = call[0], _along(call[0], call[1], call.get("axis", 1))
    zero = _along(x, call[2], call.get("axis", 1)) if call.has(2) else torch.zeros((), dtype=torch.uint8)
    limits = torch.iinfo(zero.dtype)
    return ((x / scale).round() + zero.to(x.dtype)).clamp(limits.min, limits.max).to(zero.dtype)


@onnx_operator("DequantizeLinear")
def _dequantised(call: OnnxCall) -> Tensor:
    x, scale = call[0], _along(call[0], call[1], call.get("axis", 1))
    zero = _along(x, call[2], call.get("axis", 1)).to(scale.dtype) if call.has(2) else 0
    return (x.to(scale.dtype) - zero) * scale


@onnx_operator("DynamicQuantizeLinear")
def _dynamically(call: OnnxCall) -> tuple[Tensor, Tensor, Tensor]:
    x = call[0]
    low, high = x.amin().clamp(max=0), x.amax().clamp(min=0)
    scale = (high - low) / 255
    zero = (-low / scale).round().clamp(0, 255)
    return ((x / scale).round() + zero).clamp(0, 255).to(torch.uint8), scale, zero.to(torch.uint8)


@onnx_operator("MatMulInteger", "ConvInteger")
def _of_integers(call: OnnxCall) -> Tensor:
    a, b = call[0].double(), call[1].double()
    a = a - call[2].double() if call.has(2) else a
    b = b - _along(b, call[3].double(), 0 if call.op == "ConvInteger" else -1) if call.has(3) else b
    return (_convolved(call, a, b, None) if call.op == "ConvInteger" else a @ b).to(torch.int32)

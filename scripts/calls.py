"""Calls with ordinary numbers that were tried by hand on a platform and gave something else than torch.

`scripts/findings.py calls` explains each, and keeps what a short script shows. None was taken from cases/.
"""

from __future__ import annotations

from typing import Any, Final

import torch
import torch.nn.functional as F
from torch import tensor

CALLS: Final[dict[str, dict[str, tuple[Any, ...]]]] = {
    "mlx": {
        "sum of 2**20 x 0.1": (lambda x: x.sum(), torch.full((1 << 20,), 0.1)),
        "softmax of 3000 equal numbers in float16": (
            lambda x: F.softmax(x, 0), torch.full((3000,), 1.0, dtype=torch.float16),
        ),
        "erf near 0": (torch.erf, tensor([1e-4])),
        "floor_divide of floats": (torch.floor_divide, tensor([1.0]), tensor([0.1])),
    },
    "mindspore": {
        "expm1 near 0": (torch.expm1, tensor([1e-4])),
        "log1p near 0": (torch.log1p, tensor([1e-4])),
        "tanh of 4": (torch.tanh, tensor([4.0])),
        "remainder of floats": (torch.remainder, tensor([9999.0]), tensor([0.3])),
    },
    "executorch": {
        "remainder of negative integers": (torch.remainder, tensor([-7]), tensor([3])),
        "sum of 2**16 x 0.1": (lambda x: x.sum(), torch.full((1 << 16,), 0.1)),
    },
    "iree": {
        "pow of a negative number": (torch.pow, tensor([-2.0]), tensor([3.0])),
        "sin of some thousands": (torch.sin, tensor([9999.0])),
        "sinh near 0": (torch.sinh, tensor([1e-4])),
        "asinh near 0": (torch.asinh, tensor([-1e-4])),
        "atanh near 0": (torch.atanh, tensor([-1e-4])),
        "fmod of floats": (torch.fmod, tensor([1.0]), tensor([0.1])),
        "floor_divide of floats": (torch.floor_divide, tensor([1.0]), tensor([0.1])),
        "gelu with tanh": (lambda x: F.gelu(x, approximate="tanh"), tensor([1.0])),
    },
    "iree:vulkan": {
        "depthwise convolution": (
            lambda x, w: F.conv2d(x, w, padding=1, groups=2),
            torch.arange(1.0, 33.0).reshape(1, 2, 4, 4), torch.arange(1.0, 19.0).reshape(2, 1, 3, 3),
        ),
    },
    "jax": {
        "fmod of floats": (torch.fmod, tensor([1.0]), tensor([0.1])),
        "cumsum of int8": (lambda x: x.cumsum(0), tensor([100, 27], dtype=torch.int8)),
        "a number // int32": (lambda x: 100 // x, tensor([7], dtype=torch.int32)),
    },
    "tract": {
        "logsigmoid far below 0": (F.logsigmoid, tensor([-100.0])),
        "celu with alpha": (lambda x: F.celu(x, 0.5), tensor([-1.5])),
        "logsumexp of some thousands": (lambda x: torch.logsumexp(x, 0), tensor([3500.0, 1.0])),
        "binary cross entropy of logits": (F.binary_cross_entropy_with_logits, tensor([-60.0]), tensor([0.0])),
        "avg_pool2d with a divisor": (
            lambda x: F.avg_pool2d(x, 2, divisor_override=3), tensor([[[[1.0, 2.0], [3.0, 4.0]]]]),
        ),
        "scatter_reduce by the mean": (
            lambda x, i, s: x.scatter_reduce(0, i, s, "mean"), tensor([2.0, 1.0]), tensor([1]), tensor([9.0]),
        ),
        "remainder of floats": (torch.remainder, tensor([1.0]), tensor([0.1])),
        "neg of uint8": (torch.neg, tensor([7], dtype=torch.uint8)),
        "erf near 0": (torch.erf, tensor([1e-4])),
        "softplus below 0": (F.softplus, tensor([-9.5])),
        "expm1 near 0": (torch.expm1, tensor([2e-3])),
        "log1p near 0": (torch.log1p, tensor([1e-4])),
    },
    "tvm": {
        "the last element": (lambda x: x[-1], tensor([1.0, 2.0])),
        "true division of int32": (torch.true_divide, tensor([7], dtype=torch.int32), tensor([2], dtype=torch.int32)),
        "bilinear by a scale": (
            lambda x: F.interpolate(x, scale_factor=1.7, mode="bilinear"), tensor([[[[1.0, 2.0], [3.0, 5.0]]]]),
        ),
        "avg_pool2d with a divisor": (
            lambda x: F.avg_pool2d(x, 2, divisor_override=3), tensor([[[[1.0, 2.0], [3.0, 4.0]]]]),
        ),
        "softmax of 3000 equal numbers in float16": (
            lambda x: F.softmax(x, 0), torch.full((3000,), 1.0, dtype=torch.float16),
        ),
        "softplus below 0": (F.softplus, tensor([-9.5])),
        "log1p near 0": (torch.log1p, tensor([1e-4])),
    },
    "executorch@xnnpack": {"gelu with tanh": (lambda x: F.gelu(x, approximate="tanh"), tensor([-3.3]))},
    "iree@vmvx": {
        "bilinear": (lambda x: F.interpolate(x, (4, 3), mode="bilinear"), tensor([[[[1.0, 2.0], [3.0, 5.0]]]])),
    },
    "inductor:xla": {"time-series-lstm": ("smoke:time-series-lstm",)},
}  # fmt: skip
"""By platform: a title, and the call with its arguments or the name of a model."""

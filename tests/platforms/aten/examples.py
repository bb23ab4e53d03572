"""One example of ordinary values for every operator of the table."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch.nn import functional as F

X = torch.tensor([[0.5, -1.25, 2.0, 0.75], [1.5, -0.25, -2.0, 3.0], [0.1, 0.2, -0.3, 0.4]])
Y = torch.tensor([[1.5, 0.5, -1.0, 2.0], [0.25, 3.0, 1.0, -0.5], [2.0, -0.1, 0.7, 0.9]])
POSITIVE = X.abs() + 0.5
UNIT = X / 4
WHOLE = torch.tensor([[7, -7, 3, 5], [6, -6, 1, 2], [9, 4, -8, 10]])
OTHER = torch.tensor([[2, 2, -2, 3], [3, 4, 5, -1], [2, -3, 3, 7]])
FLAGS = X > 0
IMAGE = (torch.arange(2 * 4 * 7 * 6) * 31 % 97 / 48.5 - 1).reshape(2, 4, 7, 6)
INDEX = torch.tensor([[0, 2, 1, 3], [3, 3, 0, 1]])

_MATHS = (
    "abs acos asin asinh atan atanh ceil cos cosh erf exp expm1 floor isinf isnan neg relu round sigmoid sign sin sinh "
    "tan tanh trunc"
)
_LOGS = "log log10 log1p log2 reciprocal rsqrt sqrt"
_PAIRS = "add sub mul div remainder fmod maximum minimum atan2"
_COMPARED = "eq ne lt le gt ge bitwise_and bitwise_or bitwise_xor"
_LOGICAL = "logical_and logical_or logical_xor"
_CORNER = IMAGE[:, :, :3, :3].clone()
_KERNELS = _CORNER.reshape(8, 1, 3, 3)[:4]

EXAMPLES: dict[str, tuple[Callable[..., Any], tuple[torch.Tensor, ...]]] = {
    **{name: (getattr(torch, name), (UNIT,)) for name in _MATHS.split()},
    **{name: (getattr(torch, name), (POSITIVE,)) for name in _LOGS.split()},
    "acosh": (torch.acosh, (POSITIVE + 1,)),
    "logical_not": (torch.logical_not, (FLAGS,)),
    "bitwise_not": (torch.bitwise_not, (WHOLE,)),
    **{name: (getattr(torch, name), (X, Y)) for name in _PAIRS.split()},
    **{name: (getattr(torch, name), (WHOLE, OTHER)) for name in _COMPARED.split()},
    **{name: (getattr(torch, name), (FLAGS, Y > 0)) for name in _LOGICAL.split()},
    "pow": (torch.pow, (POSITIVE, Y)),
    "pow of a number": (lambda x: x**3 + 2**x, (X,)),
    "add with alpha": (lambda x, y: torch.add(x, y, alpha=3) - torch.sub(y, x, alpha=2), (X, Y)),
    "promotion": (lambda x, n, f: (x + n, n * 2, n / 4, n * 0.5, f + 1, x.half() + n), (X, WHOLE, FLAGS)),
    "floor division": (lambda x, y: torch.div(x, y, rounding_mode="floor"), (WHOLE, OTHER)),
    "division that truncates": (lambda x, y: torch.div(x, y, rounding_mode="trunc"), (WHOLE, OTHER)),
    "remainder of integers": (torch.remainder, (WHOLE, OTHER)),
    "where": (torch.where, (FLAGS, X, Y)),
    "clamp": (lambda x: (x.clamp(-1, 1), x.clamp(min=0.25), F.hardtanh(x)), (X,)),
    "mm": (lambda x, y: x @ y.t(), (X, Y)),
    "bmm": (torch.bmm, (IMAGE[0], IMAGE[1].transpose(1, 2).contiguous())),
    "addmm": (lambda z, x, y: torch.addmm(z, x, y.t(), beta=0.5, alpha=2), (Y[:, :3].clone(), X, Y)),
    "clone": (torch.clone, (X,)),
    "casts": (lambda x: (x.to(torch.int32), x.half(), x.bfloat16(), x.to(torch.bool)), (POSITIVE,)),
    "shapes": (lambda x: (x.view(4, 3), x.t(), x[None], x[:, :1].squeeze(1), x[:1].expand(5, 4), x.flatten()), (X,)),
    "as_strided": (lambda x, image: (x.as_strided((2, 2, 3), (4, 1, 1), 3), x.as_strided((12,), (1,)),
                   image.as_strided((3, 5), (5, 2), 7)), (X, IMAGE.to(memory_format=torch.channels_last))),
    "select and slice": (lambda x: (x[1], x[-1, 1:], x[:, ::2], x[5:]), (X,)),
    "cat and split": (lambda x, y: (torch.cat([x, y], -1), *torch.split(x, [1, 3], 1)), (X, Y)),
    "flip": (lambda x: x.flip(0, 1), (X,)),
    "repeat": (lambda x: x.repeat(2, 1, 3), (X,)),
    "pad": (lambda x: (F.pad(x, (1, 2, 0, 1), value=3.0), F.pad(x, (-1, 1))), (X,)),
    "full": (lambda x: (torch.full((2, 3), 7), torch.zeros_like(x), x.new_ones(2), torch.scalar_tensor(3.0)), (X,)),
    "arange": (lambda x: (torch.arange(2, 9, 3), torch.arange(0.0, 1.0, 0.25) + x[0]), (X,)),
    "sum": (lambda x, n: (x.sum(), x.sum(1), x.sum((0, 1), keepdim=True), n.to(torch.int8).sum(0)), (X, WHOLE)),
    "mean": (lambda x: (x.mean(), x.mean(1, keepdim=True)), (X,)),
    "prod": (lambda x: x.prod(1), (X,)),
    "amax and amin": (lambda x: (x.amax(1), x.amin((0, 1)), x.max(), x.min()), (X,)),
    "any": (lambda x: (x.any(), x.any(1)), (FLAGS,)),
    "argmax": (lambda x: (x.argmax(1), x.argmin(0, keepdim=True), x.argmax()), (X,)),
    "max with positions": (lambda x: (*x.max(1), *x.min(0, keepdim=True)), (X,)),
    "vector_norm": (lambda x: [torch.linalg.vector_norm(x, order, dim, keepdim=order == 2) for order, dim in
                               ((2, None), (1, 0), (3.5, 1), (0, 1), (math.inf, (0, 1)), (-math.inf, 1))], (X,)),
    "var": (lambda x: (x.var(1), x.var((0, 1), correction=0, keepdim=True)), (X,)),
    "cumsum": (lambda x, n: (x.cumsum(1), n.to(torch.int8).cumsum(0)), (X, WHOLE)),
    "softmax": (lambda x: (torch.softmax(x, -1), torch.softmax(x, 0), torch.log_softmax(x, 1)), (X,)),
    "sort": (lambda x: (*torch.sort(x, 1), *torch.sort(x, 0, descending=True)), (X,)),
    "topk": (lambda x: (*torch.topk(x, 2), *torch.topk(x, 2, 0, largest=False)), (X,)),
    "gather": (lambda x, i: (torch.gather(x, 1, i), torch.gather(x, 0, i % 3)), (X, INDEX)),
    "index_select": (lambda x: torch.index_select(x, 1, torch.tensor([3, 0, 0])), (X,)),
    "embedding": (lambda x, i: F.embedding(i % 3, x), (X, INDEX)),
    "embedding_bag": (lambda table, rows, starts, by: (
        F.embedding_bag(rows, table, starts, mode="sum", per_sample_weights=by), F.embedding_bag(rows, table, starts),
        F.embedding_bag(rows, table, starts, mode="max", padding_idx=2),
        F.embedding_bag(rows, table, starts, mode="sum", include_last_offset=True)),
        (X, torch.tensor([0, 2, 1, 1, 2, 0]), torch.tensor([0, 2, 2, 6]), Y.flatten()[:6])),
    "index": (lambda x: (x[torch.tensor([2, 0])], x[:, torch.tensor([1, 1])]), (X,)),
    "scatter": (lambda x, i, y: (x.scatter(1, i, y), x.scatter(1, i[:, :2], 5.0)), (X, INDEX[:, [0, 1, 2]], Y)),
    "scatter_add": (lambda x, i, y: x.scatter_add(1, i, y), (X, INDEX, Y)),
    "index_put": (lambda x, y: (x.index_put((torch.tensor([0, 2]),), y[:2]),
                                x.index_put((torch.tensor([1, 1]),), y[:2], accumulate=True),
                                x.index_put((torch.tensor([[0], [2]]), torch.tensor([1, 3])), y[0, 0])), (X, Y)),
    "activations": (lambda x: (F.gelu(x), F.gelu(x, approximate="tanh"), F.leaky_relu(x, 0.2), F.elu(x)), (X,)),
    "layer_norm": (lambda x, y: (F.layer_norm(x, (4,)), F.layer_norm(x, (4,), y[0], y[1])), (X, Y)),
    "batch_norm": (lambda x, y: F.batch_norm(x, y[0], y[1].abs() + 1, y[2], y[0]), (IMAGE, Y)),
    "group_norm": (lambda x, y: F.group_norm(x, 2, y[0], y[1]), (IMAGE, Y)),
    "attention": (lambda x: F.scaled_dot_product_attention(*[x.transpose(1, 2)] * 3).transpose(1, 2).view(8, -1),
                  (IMAGE.reshape(2, 4, 3, 14),)),
    "convolution of a row": (lambda x, w: F.conv1d(x, w, stride=2, padding=1, dilation=2),
                             (IMAGE[0], IMAGE[1, :2, :, :3])),
    "convolution of a volume": (lambda x, w: F.conv3d(x, w, padding=(0, 1, 0)), (IMAGE[:, None], _CORNER[:, None])),
    "convolution": (lambda x, w: F.conv2d(x, w, torch.ones(2), stride=2, padding=1), (IMAGE, _CORNER)),
    "grouped convolution": (lambda x, w: F.conv2d(x, w, groups=4, dilation=2), (IMAGE, _KERNELS)),
    "max_pool2d": (lambda x: (F.max_pool2d(x, 2), F.max_pool2d(x, 3, 2, 1, ceil_mode=True)), (IMAGE,)),
    "avg_pool2d": (lambda x: (F.avg_pool2d(x, 2), F.avg_pool2d(x, 3, 2, 1, ceil_mode=True),
                              F.avg_pool2d(x, 3, 2, 1, count_include_pad=False),
                              F.avg_pool2d(x, (2, 3), divisor_override=5)), (IMAGE,)),
    "upsample_nearest2d": (lambda x: [F.interpolate(x, size=size, scale_factor=scale) for size, scale in
                           (((5, 9), None), (None, 2), (None, (1.3, 0.6)))], (IMAGE,)),
    "upsample_bilinear2d": (lambda x: [
        F.interpolate(x, size=size, scale_factor=scale, mode="bilinear", align_corners=align)
        for size, scale in (((5, 9), None), ((1, 12), None), (None, (1.3, 0.6))) for align in (False, True)], (IMAGE,)),
    "adaptive_avg_pool2d": (lambda x: (F.adaptive_avg_pool2d(x, (3, 4)), F.adaptive_avg_pool2d(x, 1)), (IMAGE,)),
}  # fmt: skip

"""The operators of ONNX in terms of torch, each as one function of a call.

What is known when the file is read (shapes, sizes, axes) arrives as numpy; what depends on an input, and weights where
torch needs them, as tensors.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import numpy as np
import torch
from torch.nn import functional

from mindgap.errors import UnsupportedConstruct
from mindgap.platforms.onnx.export import TORCH_TYPES

Tensor: TypeAlias = torch.Tensor


@dataclass(frozen=True)
class OnnxCall:
    """One node with its operands."""

    op: str
    attributes: Mapping[str, Any]
    operands: Sequence[Any]
    """Tensors, numpy arrays of what is known, None for what is left out."""
    version: int
    """Of the standard's operators."""
    weight: Callable[[np.ndarray], Tensor]
    """A known array as a constant of the program."""

    def __getitem__(self, place: int) -> Tensor:
        value = self.operands[place]
        return self.weight(value) if isinstance(value, np.ndarray) else value

    def has(self, place: int) -> bool:
        return place < len(self.operands) and self.operands[place] is not None

    def get(self, name: str, default: Any = None) -> Any:
        return self.attributes.get(name, default)

    def known(self, place: int, name: str = "", default: Any = None) -> Any:
        """Whole numbers that must be known: an operand, or the attribute that it was in older versions."""
        if self.has(place):
            value = self.operands[place]
            if not isinstance(value, np.ndarray):
                raise UnsupportedConstruct(f"{self.op} with a size that depends on an input")
            return value.tolist()
        return self.attributes.get(name, default)

    def axes(self, place: int) -> list[int] | None:
        found = self.known(place, "axes")
        return None if found is None else [found] if isinstance(found, int) else list(found)


Handler: TypeAlias = Callable[[OnnxCall], Any]
HANDLERS: dict[str, Handler] = {}


def onnx_operator(*names: str) -> Callable[[Handler], Handler]:
    """Registers the meaning of some operators."""

    def keep(handler: Handler) -> Handler:
        HANDLERS.update(dict.fromkeys(names, handler))
        return handler

    return keep


_ONE: Final[Mapping[str, Callable[[Tensor], Tensor]]] = {
    "Relu": torch.relu, "Sigmoid": torch.sigmoid, "Tanh": torch.tanh, "Erf": torch.erf, "Exp": torch.exp,
    "Log": torch.log, "Sqrt": torch.sqrt, "Neg": torch.neg, "Abs": torch.abs, "Floor": torch.floor,
    "Ceil": torch.ceil, "Round": torch.round, "Reciprocal": torch.reciprocal, "Not": torch.logical_not,
    "Sin": torch.sin, "Cos": torch.cos, "Tan": torch.tan, "Atan": torch.atan, "Asin": torch.asin, "Acos": torch.acos,
    "Sinh": torch.sinh, "Cosh": torch.cosh, "Sign": torch.sign, "IsNaN": torch.isnan, "IsInf": torch.isinf,
    "Identity": lambda x: x, "Dropout": lambda x: x, "Softplus": functional.softplus,
    "Softsign": functional.softsign, "HardSwish": functional.hardswish, "Mish": functional.mish,
    "GlobalAveragePool": lambda x: x.mean(tuple(range(2, x.dim())), keepdim=True),
    "GlobalMaxPool": lambda x: x.amax(tuple(range(2, x.dim())), keepdim=True),
}  # fmt: skip
_TWO: Final[Mapping[str, Callable[[Tensor, Tensor], Tensor]]] = {
    "Add": torch.add, "Sub": torch.sub, "Mul": torch.mul, "And": torch.logical_and, "Or": torch.logical_or,
    "Xor": torch.logical_xor, "Equal": torch.eq, "Greater": torch.gt, "Less": torch.lt, "GreaterOrEqual": torch.ge,
    "LessOrEqual": torch.le, "MatMul": torch.matmul, "Pow": lambda x, y: torch.pow(x, y).to(x.dtype),
    "PRelu": lambda x, y: torch.where(x < 0, x * y, x),
    "Div": lambda x, y: x / y if x.is_floating_point() else torch.div(x, y, rounding_mode="trunc"),
}  # fmt: skip


@onnx_operator(*_ONE)
def _of_one(call: OnnxCall) -> Tensor:
    return _ONE[call.op](call[0])


@onnx_operator(*_TWO)
def _of_two(call: OnnxCall) -> Tensor:
    return _TWO[call.op](call[0], call[1])


@onnx_operator("Max", "Min", "Sum", "Mean")
def _many(call: OnnxCall) -> Tensor:
    functions: dict[str, Callable[[Tensor, Tensor], Tensor]] = {"Max": torch.maximum, "Min": torch.minimum}
    function = functions.get(call.op, torch.add)
    total = call[0]
    for place in range(1, len(call.operands)):
        total = function(total, call[place])
    return total / len(call.operands) if call.op == "Mean" else total


@onnx_operator("Mod")
def _mod(call: OnnxCall) -> Tensor:
    if call.get("fmod", 0):
        return torch.fmod(call[0], call[1])
    return torch.remainder(call[0], call[1])


@onnx_operator("LeakyRelu", "Elu", "HardSigmoid", "Gelu", "ThresholdedRelu", "Selu")
def _activation(call: OnnxCall) -> Tensor:
    x, alpha = call[0], call.get("alpha")
    if call.op == "LeakyRelu":
        return functional.leaky_relu(x, 0.01 if alpha is None else alpha)
    if call.op == "Elu":
        grown: Tensor = functional.elu(x, 1.0 if alpha is None else alpha)
        return grown
    if call.op == "HardSigmoid":
        line: Tensor = x * (0.2 if alpha is None else alpha) + call.get("beta", 0.5)
        return line.clamp(0, 1)
    if call.op == "ThresholdedRelu":
        return torch.where(x > (1.0 if alpha is None else alpha), x, torch.zeros_like(x))
    if call.op == "Selu" and alpha is None and call.get("gamma") is None:
        return torch.selu(x)
    if call.op == "Gelu":
        return functional.gelu(x, approximate=call.get("approximate", b"none").decode())
    raise UnsupportedConstruct(f"{call.op} with coefficients of its own")


@onnx_operator("Clip")
def _clip(call: OnnxCall) -> Tensor:
    x = call[0]
    for place, name, function in ((1, "min", torch.maximum), (2, "max", torch.minimum)):
        if call.has(place):
            bound = call.operands[place]
            known = isinstance(bound, np.ndarray)
            x = x.clamp(**{name: bound.item()}) if known else function(x, bound)
        elif name in call.attributes:
            x = x.clamp(**{name: call.attributes[name]})
    return x


@onnx_operator("Where")
def _where(call: OnnxCall) -> Tensor:
    return torch.where(call[0], call[1], call[2])


@onnx_operator("Cast", "CastLike")
def _cast(call: OnnxCall) -> Tensor:
    return call[0].to(call[1].dtype if call.op == "CastLike" else TORCH_TYPES[call.get("to")])


@onnx_operator("Reshape")
def _reshape(call: OnnxCall) -> Tensor:
    x, sizes = call[0], list(call.known(1, "shape"))
    if not call.get("allowzero", 0):
        sizes = [x.shape[n] if size == 0 else size for n, size in enumerate(sizes)]
    return x.reshape(sizes)


@onnx_operator("Transpose")
def _transpose(call: OnnxCall) -> Tensor:
    return call[0].permute(call.get("perm", tuple(reversed(range(call[0].dim())))))


@onnx_operator("Squeeze")
def _squeeze(call: OnnxCall) -> Tensor:
    axes = call.axes(1)
    return call[0].squeeze() if axes is None else call[0].squeeze(tuple(axes))


@onnx_operator("Unsqueeze")
def _unsqueeze(call: OnnxCall) -> Tensor:
    x, axes = call[0], call.axes(1) or []
    for axis in sorted(axis % (x.dim() + len(axes)) for axis in axes):
        x = x.unsqueeze(axis)
    return x


@onnx_operator("Flatten")
def _flatten(call: OnnxCall) -> Tensor:
    axis = call.get("axis", 1) % (call[0].dim() + 1)
    return call[0].reshape(math.prod(call[0].shape[:axis]), -1)


@onnx_operator("Concat")
def _concat(call: OnnxCall) -> Tensor:
    return torch.cat([call[place] for place in range(len(call.operands))], dim=call.get("axis", 1))


@onnx_operator("Split")
def _split(call: OnnxCall) -> tuple[Tensor, ...]:
    axis, sizes = call.get("axis", 0), call.known(1, "split")
    if sizes is not None:
        return torch.split(call[0], list(sizes), dim=axis)
    return torch.chunk(call[0], call.get("num_outputs") or call.get("outputs"), dim=axis)


@onnx_operator("Slice")
def _slice(call: OnnxCall) -> Tensor:
    x, starts, ends = call[0], call.known(1, "starts"), call.known(2, "ends")
    axes = call.known(3, "axes", list(range(len(starts))))
    for start, end, axis, step in zip(starts, ends, axes, call.known(4, "", [1] * len(starts))):
        size = x.shape[axis]
        if step > 0:
            place = [slice(None)] * (axis % x.dim()) + [slice(start, min(end, size), step)]
            x = x[tuple(place)]
        else:
            rows = list(range(size))[slice(start, end if end >= -size else None, step)]
            x = x.flip(axis) if len(rows) == size and step == -1 else x.index_select(axis, torch.tensor(rows))
    return x


@onnx_operator("Gather")
def _gather(call: OnnxCall) -> Tensor:
    x, axis, index = call[0], call.get("axis", 0), call.operands[1]
    if isinstance(index, np.ndarray) and index.ndim == 0:
        return x.select(axis, int(index))
    index = call[1].to(torch.int64)
    index = torch.where(index < 0, index + x.shape[axis], index)
    found = x.index_select(axis, index.reshape(-1))
    axis %= x.dim()
    return found.reshape(*x.shape[:axis], *index.shape, *x.shape[axis + 1 :])


@onnx_operator("GatherElements")
def _gather_elements(call: OnnxCall) -> Tensor:
    index = call[1].to(torch.int64)
    axis = call.get("axis", 0)
    return call[0].gather(axis, torch.where(index < 0, index + call[0].shape[axis], index))


@onnx_operator("Expand")
def _expand(call: OnnxCall) -> Tensor:
    sizes = call.known(1)
    return call[0].expand(np.broadcast_shapes(tuple(call[0].shape), tuple(sizes)))


@onnx_operator("Tile")
def _tile(call: OnnxCall) -> Tensor:
    return call[0].repeat(call.known(1))


@onnx_operator("Pad")
def _pad(call: OnnxCall) -> Tensor:
    x, pads = call[0], call.known(1, "pads")
    axes = call.known(3, "", list(range(x.dim())))
    mode = call.get("mode", b"constant").decode()
    both = {axis % x.dim(): (pads[n], pads[n + len(axes)]) for n, axis in enumerate(axes)}
    value = call.known(2, "value", 0.0) if call.has(2) or "value" in call.attributes else 0.0
    first = min((axis for axis, (a, b) in both.items() if a or b), default=x.dim() - 1)
    flat = [side for axis in range(x.dim() - 1, first - 1, -1) for side in both.get(axis, (0, 0))]
    if mode == "constant":
        return functional.pad(x, flat, value=value[0] if isinstance(value, list) else value)
    return functional.pad(x, flat, mode={"edge": "replicate", "reflect": "reflect"}[mode])


@onnx_operator("Resize", "Upsample")
def _resize(call: OnnxCall) -> Tensor:
    x, mode = call[0], call.get("mode", b"nearest").decode()
    scales = call.known(1 if call.op == "Upsample" else 2) if call.has(1 if call.op == "Upsample" else 2) else None
    sizes = call.known(3) if call.has(3) else [math.floor(n * s) for n, s in zip(x.shape, scales or ())]
    where = call.get("coordinate_transformation_mode", b"half_pixel").decode()
    if list(sizes[:2]) != list(x.shape[:2]) or where in ("tf_crop_and_resize", "tf_half_pixel_for_nn"):
        raise UnsupportedConstruct(f"Resize of channels, or by {where}")
    if mode == "nearest":
        whole = all(size % n == 0 for size, n in zip(sizes[2:], x.shape[2:]))
        if not whole and (where != "asymmetric" or call.get("nearest_mode", b"").decode() != "floor"):
            raise UnsupportedConstruct("Resize to the nearest by a fraction")
        return functional.interpolate(x, size=sizes[2:], mode="nearest")
    aligned = where == "align_corners"
    if where not in ("half_pixel", "pytorch_half_pixel", "align_corners"):
        raise UnsupportedConstruct(f"Resize by {where}")
    torch_mode = {"linear": {3: "linear", 4: "bilinear", 5: "trilinear"}[x.dim()], "cubic": "bicubic"}[mode]
    return functional.interpolate(x, size=sizes[2:], mode=torch_mode, align_corners=aligned)


@onnx_operator("DepthToSpace", "SpaceToDepth")
def _rearranged(call: OnnxCall) -> Tensor:
    x, b = call[0], call.get("blocksize")
    n, c, h, w = x.shape
    if call.op == "SpaceToDepth":
        return x.reshape(n, c, h // b, b, w // b, b).permute(0, 3, 5, 1, 2, 4).reshape(n, c * b * b, h // b, w // b)
    if call.get("mode", b"DCR") == b"CRD":
        return x.reshape(n, c // b**2, b, b, h, w).permute(0, 1, 4, 2, 5, 3).reshape(n, c // b**2, h * b, w * b)
    return x.reshape(n, b, b, c // b**2, h, w).permute(0, 3, 4, 1, 5, 2).reshape(n, c // b**2, h * b, w * b)


@onnx_operator("CumSum")
def _cumsum(call: OnnxCall) -> Tensor:
    if call.get("exclusive", 0) or call.get("reverse", 0):
        raise UnsupportedConstruct("CumSum that is exclusive or reversed")
    return call[0].cumsum(int(np.asarray(call.known(1)).item()))


@onnx_operator("TopK")
def _topk(call: OnnxCall) -> tuple[Tensor, Tensor]:
    count = int(np.asarray(call.known(1, "k")).item())
    return torch.topk(call[0], count, call.get("axis", -1), bool(call.get("largest", 1)))


@onnx_operator("ArgMax", "ArgMin")
def _arg(call: OnnxCall) -> Tensor:
    function = torch.argmax if call.op == "ArgMax" else torch.argmin
    return function(call[0], call.get("axis", 0), keepdim=bool(call.get("keepdims", 1)))


@onnx_operator("Trilu")
def _trilu(call: OnnxCall) -> Tensor:
    return (torch.triu if call.get("upper", 1) else torch.tril)(call[0], int(call.known(1) or 0))


@onnx_operator("Softmax", "LogSoftmax")
def _softmax(call: OnnxCall) -> Tensor:
    function = torch.softmax if call.op == "Softmax" else torch.log_softmax
    x = call[0]
    if call.version >= 13:
        return function(x, call.get("axis", -1))
    axis = call.get("axis", 1) % max(1, x.dim())
    return function(x.reshape(*x.shape[:axis], -1), -1).reshape(x.shape)


_REDUCTIONS: Final[Mapping[str, Callable[..., Tensor]]] = {
    "ReduceMean": torch.mean, "ReduceSum": torch.sum, "ReduceMax": torch.amax, "ReduceMin": torch.amin,
    "ReduceLogSumExp": torch.logsumexp,
    "ReduceL2": lambda x, dim, keepdim: x.square().sum(dim, keepdim=keepdim).sqrt(),
    "ReduceL1": lambda x, dim, keepdim: x.abs().sum(dim, keepdim=keepdim),
    "ReduceSumSquare": lambda x, dim, keepdim: x.square().sum(dim, keepdim=keepdim),
}  # fmt: skip


@onnx_operator(*_REDUCTIONS)
def _reduce(call: OnnxCall) -> Tensor:
    axes = call.axes(1)
    if not axes and call.get("noop_with_empty_axes", 0):
        return call[0]
    every = tuple(axes or range(call[0].dim()))
    return _REDUCTIONS[call.op](call[0], dim=every, keepdim=bool(call.get("keepdims", 1)))


@onnx_operator("GatherND")
def _gather_nd(call: OnnxCall) -> Tensor:
    if call.get("batch_dims", 0):
        raise UnsupportedConstruct("GatherND with dimensions of a batch")
    return call[0][tuple(call[1].to(torch.int64).unbind(-1))]


@onnx_operator("ScatterND", "ScatterElements")
def _scattered(call: OnnxCall) -> Tensor:
    x, index, updates = call[0], call[1].to(torch.int64), call[2]
    how = call.get("reduction", b"none").decode()
    if call.op == "ScatterElements":
        axis = call.get("axis", 0)
        index = torch.where(index < 0, index + x.shape[axis], index)
        if how == "none":
            return x.scatter(axis, index, updates)
        return x.scatter_reduce(axis, index, updates, {"add": "sum", "mul": "prod", "max": "amax", "min": "amin"}[how])
    if how not in ("none", "add"):
        raise UnsupportedConstruct(f"ScatterND by {how}")
    return x.index_put(tuple(index.unbind(-1)), updates, accumulate=how == "add")


@onnx_operator("OneHot")
def _one_hot(call: OnnxCall) -> Tensor:
    depth, axis = int(np.asarray(call.known(1)).reshape(-1)[0]), call.get("axis", -1)
    index = torch.remainder(call[0].to(torch.int64), depth).unsqueeze(axis)
    places = torch.arange(depth).reshape([-1 if n == axis % index.dim() else 1 for n in range(index.dim())])
    return torch.where(index == places, call[2][1], call[2][0])


@onnx_operator("BitwiseAnd", "BitwiseOr", "BitwiseXor", "BitwiseNot")
def _bitwise(call: OnnxCall) -> Tensor:
    if call.op == "BitwiseNot":
        return ~call[0]
    first, second = call[0], call[1]
    return first & second if call.op == "BitwiseAnd" else first | second if call.op == "BitwiseOr" else first ^ second

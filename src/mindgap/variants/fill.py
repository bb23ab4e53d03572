"""Arguments for an operator: tensors from the graph or made, literals that its parameter names ask for."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, Final

import torch

from mindgap.program.graph import Argument, Ref
from mindgap.program.made import Made, Whole
from mindgap.program.operators import traits
from mindgap.records.tensors import DTYPES
from mindgap.variants import adapt
from mindgap.variants.catalogue import Parameter, Signature, is_fixed, signature
from mindgap.variants.draft import Draft
from mindgap.variants.rules import Refused
from mindgap.variants.values import Value

SCALARS: Final = (0.0, -0.0, 1.0, -1.0, 0.5, 2.0, 3.0, 0.1, -2.5, 1e-3, 1e-6, 7.0, 16.0, 100.0)
"""Numbers that operators treat specially, and ordinary ones."""
SMALL: Final = (1e-5, 1e-12, 1e-3, 0.1, 0.0)

STRINGS: Final[dict[str, tuple[str, ...]]] = {
    "rounding_mode": ("floor", "trunc"),
    "approximate": ("none", "tanh"),
    "reduce": ("sum", "prod", "mean", "amax", "amin"),
    "mode": ("constant", "reflect", "replicate", "circular"),
    "padding": ("same", "valid"),
    "indexing": ("ij", "xy"),
    "norm": ("backward", "ortho", "forward"),
    "ord": ("fro", "nuc"),
    "padding_side": ("left", "right"),
}
_BOOLEAN: Final = ("condition", "mask", "attn_mask")
_INDEX: Final = ("index", "indices", "offsets")
_MOST_FACTOR: Final = 3
_MIXED: Final = 0.7
"""How often an argument keeps a dtype that is not the first one's; refused where the operator does not promote."""
_CASTS: Final = (
    "float32", "float16", "bfloat16", "float64", "int64", "int32", "int16", "int8", "uint8", "bool", "float8_e4m3fn",
)  # fmt: skip


def emit(draft: Draft, anchor: int, op: str, tensors: Sequence[Ref], keep_dtype: bool = False) -> Ref:
    """A call of an operator on these tensors, its other arguments filled in; the first tensor of its result.

    The first one becomes what the operator is usually given (a condition, whole numbers) unless it must keep its dtype.
    """
    known = signature(op)
    if known is None:
        raise Refused(f"{op} is not an operator")
    source = _prepared(draft, anchor, op, tensors[0], keep_dtype)
    call = _Call(draft, anchor, known, source, list(tensors[1:]), keep_dtype)
    args, kwargs = call.arguments()
    return adapt.first_tensor(draft, anchor, draft.insert(anchor, op, args, kwargs))


def _prepared(draft: Draft, anchor: int, op: str, source: Ref, keep_dtype: bool) -> Ref:
    """The main tensor in a rank and dtype that the operator takes."""
    known = traits(op)
    found = draft.tensor(source)
    if known.rank and found.rank != known.rank:
        source = adapt.with_rank(draft, anchor, source, known.rank)
    if known.takes == "whole" and not keep_dtype and (found.is_float or found.dtype.is_complex):
        if found.range.high <= 1.0:
            source = draft.insert(anchor, "aten.mul.Scalar", [source, 16])
        source = adapt.cast(draft, anchor, source, draft.rng.choice(("int32", "int64", "int16", "int8")))
    if known.takes == "boolean" and not keep_dtype:
        source = draft.insert(anchor, "aten.gt.Scalar", [source, 0])
    if known.takes == "square":
        source = _square(draft, anchor, source)
    if known.takes == "complex" and not keep_dtype:
        source = adapt.cast(draft, anchor, source, "complex64")
    if known.takes == "pairs":
        flat = draft.tensor(source)
        source = adapt.reshape(draft, anchor, source, [max(1, flat.numel // 2), 2])
    return source


def _square(draft: Draft, anchor: int, source: Ref) -> Ref:
    side = min(8, max(1, math.isqrt(draft.tensor(source).numel)))
    return adapt.reshape(draft, anchor, source, [side, side])


class _Call:
    """The arguments of one call."""

    def __init__(
        self, draft: Draft, anchor: int, known: Signature, source: Ref, others: list[Ref], keep_dtype: bool
    ) -> None:
        self.draft, self.anchor, self.known, self.source, self.others = draft, anchor, known, source, others
        self.keep_dtype = keep_dtype
        self.rng = draft.rng
        self.main = draft.tensor(source)
        self.chosen: dict[str, Any] = {}

    def arguments(self) -> tuple[list[Argument], dict[str, Argument]]:
        args: list[Argument] = []
        kwargs: dict[str, Argument] = {}
        gap = False
        for index, parameter in enumerate(self.known.parameters):
            fixed = is_fixed(parameter.name)
            skip = not parameter.required and (fixed or self.rng.random() < 0.5)
            if skip and parameter.plain == "int" and parameter.name == "groups":
                skip = False
            if fixed and parameter.required:
                raise Refused(f"{parameter.name} cannot be chosen")
            if skip:
                gap = True
                continue
            is_main = (
                index == 0 and parameter.plain == "Tensor" and not (self.keep_dtype and parameter.name in _BOOLEAN)
            )
            found = self.source if is_main else self._argument(parameter)
            self.chosen[parameter.name] = found
            if parameter.keyword or gap:
                kwargs[parameter.name] = found
            else:
                args.append(found)
        return args, kwargs

    def _argument(self, parameter: Parameter) -> Argument:
        if parameter.optional and not parameter.required and self.rng.random() < 0.3:
            return None
        if parameter.name == "dtype" and traits(self.known.op).casts:
            return DTYPES[self.rng.choice(_CASTS)]
        if parameter.name in ("dtype", "out_dtype"):
            return self.rng.choice((None, torch.float32, torch.float64))
        make: Callable[[Parameter], Argument] = {
            "Tensor": self._tensor,
            "List[Tensor]": lambda _: [self.source, self._other(self.main)],
            "int": self._int,
            "number": self._number,
            "float": self._float,
            "bool": lambda _: self.rng.random() < 0.5,
            "str": self._string,
            "ScalarType": lambda _: self.main.dtype,
            "List[int]": self._ints,
            "List[float]": lambda _: [self.rng.choice((2.0, 1.5, 3.0))] * self._spatial(),
        }.get(parameter.plain, self._unknown)
        return make(parameter)

    def _unknown(self, parameter: Parameter) -> Argument:
        raise Refused(f"a {parameter.type} cannot be made")

    # Tensors

    def _tensor(self, parameter: Parameter) -> Argument:
        name, main, op = parameter.name, self.main, self.known.op
        if name == "weight" and "conv" in op:
            return self._kernel(op)
        if name in ("weight", "bias", "running_mean", "running_var") or (name == "weight1"):
            return self._affine(name, op)
        if name in _BOOLEAN:
            return self.draft.insert(self.anchor, "aten.gt.Scalar", [self.source, self.rng.choice((0, 0.5, -1))])
        if name in _INDEX:
            return self._index(op)
        special = self._of_special_shape(name, op)
        if special is not None:
            return special
        if self.others:
            return self._given(self.others.pop(0))
        return self._other(main)

    def _given(self, other: Ref) -> Ref:
        """A tensor that the call was asked for; in a dtype of its own mostly where operators promote."""
        mixes = self.draft.tensor(other).meta.dtype != self.main.meta.dtype and self.rng.random() < _MIXED
        return other if mixes else adapt.cast(self.draft, self.anchor, other, self.main.meta.dtype)

    def _of_special_shape(self, name: str, op: str) -> Ref | None:
        """Arguments whose shape or range follows from their name: a sampling grid, labels, repeats, sorted bounds."""
        shape, dtype, rng = self.main.shape, self.main.meta.dtype, self.rng
        if name == "grid" and len(shape) in (4, 5):
            return self._made([shape[0], *(rng.choice((1, 3, 5)) for _ in shape[2:]), len(shape) - 2], dtype, -1.5, 1.5)
        if name == "target" and ("nll" in op or "margin_loss" in op) and len(shape) in (1, 2):
            low, size = (-1, list(shape)) if "multilabel" in op else (0, list(shape[:-1]))
            return self.draft.constant(Whole(rng.randrange(4), "labels", low, max(1, shape[-1])), size, "int64")
        if name == "repeats" and shape:
            size = [rng.choice((1, shape[self.chosen.get("dim") or 0]))]
            return self.draft.constant(Whole(rng.randrange(4), "repeats", 0, 4), size, "int64")
        if name in ("boundaries", "sorted_sequence"):
            made = self._made([7], dtype if self.main.is_float else "float32", -2.0, 2.0)
            ordered = self.draft.insert(self.anchor, "aten.sort.default", [made])
            return self.draft.insert(self.anchor, "operator.getitem", [ordered, 0])
        return self._made([3], dtype, 0.0, 1.0) if name == "q" else None

    def _other(self, like: Value) -> Ref:
        """Another tensor of the same shape: one that is in the graph, or numbers of its own."""
        draft, shape = self.draft, list(like.shape)
        for _ in range(3 if draft.base.program.nodes else 0):
            node = draft.pick_node()
            found = draft.known(node.id)
            alike = isinstance(found, Value) and (found.dtype, found.shape) == (like.dtype, like.shape)
            if alike and draft.order(node.id) < draft.order(self.anchor):
                return Ref(node.id)
        if self.rng.random() < 0.3:
            return self.source
        if traits(self.known.op).takes == "matrices" and len(shape) >= 2:
            shape[-1], shape[-2] = shape[-2], shape[-1]
        elif self.rng.random() < 0.4 and shape:
            shape = shape[self.rng.randrange(len(shape)) :]  # broadcast
            if self.rng.random() < 0.5:
                shape[0] = 1
        if math.prod(shape) > 1 << 16:
            return self.source
        return self._made(shape, like.meta.dtype)

    def _made(self, shape: Sequence[int], dtype: str, low: float = -1.0, high: float = 1.0) -> Ref:
        seed, stream = self.rng.randrange(4), "variant"
        if dtype.startswith(("float", "bfloat")):
            return self.draft.constant(Made(seed, stream, low, high), shape, dtype)
        if dtype.startswith("complex"):
            plain = self.draft.constant(Made(seed, stream, low, high), shape, "float32")
            return adapt.cast(self.draft, self.anchor, plain, dtype)
        return self.draft.constant(Whole(seed, stream, 0, 2 if dtype == "bool" else 9), shape, dtype)

    def _kernel(self, op: str) -> Ref:
        shape, dims = self.main.shape, self.main.rank - 2
        if dims < 1:
            raise Refused("too few dimensions for a convolution")
        size = [min(self.rng.randrange(1, _MOST_FACTOR + 1), extent) for extent in shape[2:]]
        out, channels = self.rng.choice((1, 2, 3, 8)), shape[1]
        self.chosen["groups"], self.chosen["out"] = 1, out
        pair = [channels, out] if "transpose" in op else [out, channels]
        return self._made([*pair, *size], self.main.meta.dtype, -0.3, 0.3)

    def _affine(self, name: str, op: str) -> Argument:
        shape, dtype = self.main.shape, self.main.meta.dtype
        if not shape:
            raise Refused("a scalar has no channels")
        if "layer_norm" in op or "rms_norm" in op:
            size: list[int] = list(self.chosen.get("normalized_shape") or shape[-1:])
        elif op.startswith("aten.linear"):
            rows = self.chosen.setdefault("rows", self.rng.choice((1, 3, shape[-1])))
            size = [rows, shape[-1]] if name == "weight" else [rows]
        elif "conv" in op:
            size = [self.chosen.get("out", 1)]
        elif "embedding" in op or op.startswith("aten.bilinear"):
            raise Refused("not made here")
        else:
            size = [shape[1] if len(shape) > 1 else shape[0]]
        low = 0.5 if name == "running_var" else -1.0
        return self._made(size, dtype, low, 1.5)

    def _index(self, op: str) -> Ref:
        """Whole numbers that are valid positions along every dimension."""
        shape = self.main.shape
        limit = min(shape, default=0)
        if limit < 1 or self.main.numel > 1 << 14:
            raise Refused("there is nothing to index")
        dim = self.chosen.get("dim")
        if "index_" in op or "index." in op:
            whole = any(word in op for word in ("add", "copy", "reduce"))  # as many as the source has rows
            size = [shape[dim or 0]] if whole else [self.rng.randrange(1, limit + 1)]
        else:
            size = list(shape)
        return self.draft.constant(Whole(self.rng.randrange(4), "index", 0, limit), size, "int64")

    # Literals

    def _int(self, parameter: Parameter) -> Argument:
        name, rng, rank = parameter.name, self.rng, max(1, self.main.rank)
        if name.startswith(("dim", "axis")) or name in ("start_dim", "end_dim", "source", "destination"):
            return rng.randrange(-rank, rank)
        if name == "groups":
            if "norm" in self.known.op or "shuffle" in self.known.op:
                return self._divisor()
            return self.chosen.get("groups", 1)
        if name in ("num_groups", "group"):
            return self._divisor()
        if name in ("N", "C", "HxW"):
            sizes = self.main.shape
            return {"N": sizes[0], "C": sizes[1], "HxW": math.prod(sizes[2:])}[name] if len(sizes) > 1 else 1
        if name in ("k", "step", "n", "sections", "chunks", "split_size", "upscale_factor", "downscale_factor", "size"):
            return rng.randrange(1, 4)
        if name in ("diagonal", "offset", "shifts", "decimals"):
            return rng.randrange(-2, 3)
        if name in ("correction", "reduction"):
            return rng.randrange(0, 3)
        if name == "end":
            return rng.choice((1, 3, 9, -1, 2**63 - 1))
        return rng.randrange(0, 3)

    def _divisor(self) -> int:
        channels = self.main.shape[1] if self.main.rank > 1 else 1
        return self.rng.choice([n for n in (1, 2, 3, 4, 8, channels) if n and channels % n == 0] or [1])

    def _number(self, parameter: Parameter) -> Argument:
        if self.main.is_float or self.main.dtype.is_complex or self.rng.random() < 0.2:
            return self.rng.choice(SCALARS)
        return self.rng.choice((0, 1, -1, 2, 3, 7, 127))

    def _float(self, parameter: Parameter) -> Argument:
        if parameter.name == "dropout_p":
            return 0.0
        if parameter.name.startswith("scales") and (size := self.chosen.get("output_size")):
            return self._scale(parameter.name, size)
        return self.rng.choice(SMALL if "eps" in parameter.name else SCALARS)

    def _scale(self, name: str, size: Sequence[int]) -> Argument:
        """How much larger a dimension becomes: no caller of torch's functions can give a factor beside another size."""
        place = {"scales_d": -3, "scales_h": -2}.get(name, -1)
        extent = self.main.shape[place]
        return size[place] / extent if extent else None

    def _string(self, parameter: Parameter) -> Argument:
        options = STRINGS.get(parameter.name)
        if options is None:
            raise Refused(f"no value for {parameter.name} is known")
        return self.rng.choice(options)

    def _spatial(self) -> int:
        return traits(self.known.op).spatial or max(1, self.main.rank - 2)

    def _ints(self, parameter: Parameter) -> Argument:
        name, rng, main = parameter.name, self.rng, self.main
        rank = main.rank
        if name in ("dim", "dims", "axis") and "permute" not in self.known.op:
            if "rot90" in self.known.op:
                return [0, 1]
            return sorted(rng.sample(range(rank), rng.randrange(1, rank + 1))) if rank else []
        if name == "dims":
            return rng.sample(range(rank), rank)
        if name in ("source", "destination"):
            return [rng.randrange(rank)] if rank else []
        if name == "normalized_shape":
            return list(main.shape[-rng.randrange(1, min(2, rank) + 1) :]) if rank else [1]
        if name in ("shape", "size") and ("reshape" in self.known.op or ".view." in self.known.op):
            return self._same_count()
        if name in ("size", "repeats", "dims") and "expand" not in self.known.op and "broadcast" not in self.known.op:
            return [rng.randrange(1, _MOST_FACTOR) for _ in range(max(1, rank))]
        if name in ("size", "sizes") and "unflatten" not in self.known.op:
            return [rng.choice((1, 2)) * size if size == 1 else size for size in main.shape]
        if name in ("pad", "padding") and "pad" in self.known.op:
            count = 2 * min(self._spatial(), max(1, rank))
            return [rng.randrange(0, 3) for _ in range(count)]
        if name in ("output_size", "kernel_size"):
            return [rng.randrange(1, _MOST_FACTOR + 1) for _ in range(self._spatial())]
        if name in ("padding", "output_padding"):
            return [rng.randrange(0, 2) if name == "padding" else 0 for _ in range(self._spatial())]
        if name in ("stride", "dilation"):
            return [rng.randrange(1, 3) for _ in range(self._spatial())]
        if name == "split_sizes":
            size = main.shape[0] if rank else 1
            first = rng.randrange(0, size + 1)
            return [first, size - first]
        return [rng.randrange(1, 3) for _ in range(max(1, rank))]

    def _same_count(self) -> list[int]:
        count = self.main.numel
        options = [[-1], [count, 1], [1, count], list(reversed(self.main.shape))]
        return self.rng.choice([o for o in options if count or -1 not in o])

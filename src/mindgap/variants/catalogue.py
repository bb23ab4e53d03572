"""Operators that a variant may use, with their signatures read from torch's schemas."""

from __future__ import annotations

import functools
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import torch

from mindgap.errors import CorruptProgram
from mindgap.program import ops

_NOT_FUNCTIONAL: Final = re.compile(
    r"^native_|backward|fractional|sparse|crow|ccol|col_indices|row_indices|^indices|^values|csr|csc|bsr|bsc|coalesce"
    r"|hspmm|smm|sspaddmm|mkldnn|miopen|cudnn|fbgemm|quantize|qparams|q_per|q_scale|int_repr|nested|padded_tensor"
    r"|batch_norm_(elemt|stats|gather|update)|choose_qparams|pin_memory|cuda$|^cpu$|data$|storage|^set|resize"
    r"|empty|as_tensor|lift|slow_conv|thnn|overrideable|conv_depthwise3d|glu_jvp|native_norm|_forward$|cachemask"
    r"|slice_inverse|hash_tensor|from_file|record_stream|is_|retain|requires_grad|output_nr|version|names?$|align"
    r"|sym_|item|equal$|allclose|nonzero|refine|unsafe|functional|_copy$|^to$|mm_dtype"
    r"|linalg_(inv|solve|cholesky|eig|lstsq|tensorinv|tensorsolve|cond|pinv|svd|lu|ldl|qr|householder|matrix_rank"
    r"|multi_dot)|^(inverse|cholesky|lu_|svd|qr|geqrf|orgqr|ormqr|pinverse|triangular_solve|symeig|logdet|matrix_rank"
    r"|nuclear_norm|det|slogdet|chain_matmul|einsum|segment_reduce|ctc_loss|mode|kthvalue|quantile|nanquantile|histc"
    r"|histogram|corrcoef|cov|gru|lstm|rnn_|istft|stft|combinations|cartesian_prod|narrow|as_strided|put$|take$|complex$"
    r"|polar|vander|linspace|logspace|renorm|embedding_renorm|max_unpool|multilabel|nll_loss|multi_margin|pdist"
    r"|searchsorted|bucketize|tensordot|block_diag|col2im|lu_unpack|index_put|grid_sampler|cdist|affine_grid"
    r"|conv_tbc|index_reduce|adjoint|matrix_H|mH|numpy_T|repeat_interleave|mvlgamma|special_multigammaln)"
)
"""What is left out with random and private operators: sparse, quantised, vendor-specific, special matrices only."""

_UNUSUAL: Final = re.compile(
    r"^(to|index_copy|mode|kthvalue|quantile|nanquantile|histc|corrcoef|cov|combinations|cartesian_prod|put|take|vander|renorm"
    r"|multilabel_margin_loss|multi_margin_loss|nll_loss|nll_loss2d|nll_loss_nd|pdist|searchsorted|bucketize|tensordot"
    r"|block_diag|grid_sampler|grid_sampler_2d|grid_sampler_3d|cdist|affine_grid_generator|index_reduce"
    r"|repeat_interleave|mvlgamma|special_multigammaln|logdet|det|slogdet|inverse|linalg_inv|cholesky|linalg_cholesky)$"
)
"""What whole variants leave out because it seldom fits on an edge; a fragment gives it arguments of its own."""

_QUIET_DROPOUT: Final = ("aten.scaled_dot_product_attention.default",)
"""Random by its tag, and not where it drops nothing."""

_UNSUITABLE: Final = {
    "aten.where.default", "aten.frobenius_norm.dim", "aten.chalf.default", "aten.scatter.reduce",
    "aten.scatter_.reduce", "aten.meshgrid.default", "aten.cross.default", "aten.embedding_bag.default",
    "aten.embedding_bag.padding_idx",
    "aten.index.Tensor_hacked_twin", "aten.mm.dtype", "aten.bmm.dtype", "aten.addmm.dtype", "aten.baddbmm.dtype",
    "aten.to_dense.default", "aten.unflatten_dense_tensors.default", "aten.flatten_dense_tensors.default",
    "aten.convolution.default", "aten.masked_scatter.default", "aten.masked_scatter_.default",
    "aten.tensor_split.tensor_indices_or_sections", "aten.type_as.default",
}  # fmt: skip
"""Deprecated, shaped by their data, or helpers that no model calls."""

_FIXED: Final = ("device", "layout", "pin_memory", "generator", "memory_format", "out", "non_blocking", "copy", "names")
"""Arguments that are never given or changed."""

_ELEMENT_TYPE: Final = "ScalarType"


@dataclass(frozen=True, slots=True)
class Parameter:
    """One argument of an operator."""

    name: str
    type: str
    """`Tensor`, `int`, `number`, `float`, `bool`, `str`, `List[int]`, `ScalarType`, ...; `Optional[...]` around what
    may be None."""
    default: Any
    required: bool
    keyword: bool

    @property
    def plain(self) -> str:
        """The type without `Optional`."""
        return self.type.removeprefix("Optional[").removesuffix("]") if self.optional else self.type

    @property
    def optional(self) -> bool:
        return self.type.startswith("Optional[")


@dataclass(frozen=True, slots=True)
class Signature:
    """An operator and what it takes."""

    op: str
    parameters: tuple[Parameter, ...]
    tensors: int
    """Tensors that must be given."""
    in_place: bool


@functools.cache
def signature(op: str) -> Signature | None:
    """The signature of an overload; None for what is not one."""
    try:
        function = ops.resolve(op)
    except CorruptProgram:
        return None
    if not isinstance(function, torch._ops.OpOverload):
        return None
    parameters = tuple(
        Parameter(a.name, _type_of(a), a.default_value, not a.has_default_value(), a.kwarg_only)
        for a in function._schema.arguments
    )
    required = [p for p in parameters if p.required and p.plain == "Tensor" and not p.optional]
    return Signature(op, parameters, len(required), bool(ops.mutated_arguments(op)))


def _type_of(argument: Any) -> str:
    """TorchScript calls an element type a number."""
    return _ELEMENT_TYPE if str(argument.real_type) == _ELEMENT_TYPE else str(argument.type)


def is_fixed(name: str) -> bool:
    """Whether an argument must be left alone."""
    return name in _FIXED


@functools.cache
def functional() -> tuple[str, ...]:
    """Every overload of ATen that computes tensors from tensors and nothing else, in alphabetical order."""
    return tuple(sorted(name for name, write in _overloads() if not write))


@functools.cache
def in_place() -> tuple[str, ...]:
    """Overloads that write to their first argument and leave its shape alone."""
    writing = sorted(name for name, write in _overloads() if write)
    return tuple(name for name in writing if not ops.has_tag(name, torch.Tag.inplace_view))


@functools.cache
def unusual() -> tuple[str, ...]:
    """Overloads that compute tensors from tensors of special shapes or ranges."""
    return tuple(sorted((*(name for name, write in _overloads(unusual=True) if not write), *_QUIET_DROPOUT)))


def _overloads(unusual: bool = False) -> list[tuple[str, bool]]:
    found: dict[str, bool] = {}
    for schema in torch._C._jit_get_all_schemas():
        namespace, _, name = schema.name.partition("::")
        plain = name.removesuffix("_")
        is_left_out = _UNUSUAL.match(plain) is None if unusual else _NOT_FUNCTIONAL.search(plain) is not None
        if namespace != "aten" or name.startswith("_") or is_left_out:
            continue
        op = f"aten.{name}.{schema.overload_name or 'default'}"
        writes = [a.name for a in schema.arguments if a.alias_info is not None and a.alias_info.is_write]
        if _usable(op, schema, writes):
            found[op] = bool(writes)
    return list(found.items())


def _usable(op: str, schema: Any, writes: Sequence[str]) -> bool:
    if not schema.arguments or not schema.returns or op in _UNSUITABLE:
        return False
    first = str(schema.arguments[0].type)
    if first not in ("Tensor", "List[Tensor]") and not (op.startswith("aten.where.") and first == "Tensor"):
        return False
    if writes and (writes != [schema.arguments[0].name] or not op.split(".")[1].endswith("_")):
        return False
    if any(str(item.type) not in ("Tensor", "List[Tensor]") for item in schema.returns):
        return False
    unknown = [a for a in schema.arguments if not a.has_default_value() and str(a.type) not in _FILLABLE]
    found = signature(op)
    if unknown or found is None:
        return False
    qualified = f"{schema.name}.{schema.overload_name}" if schema.overload_name else schema.name
    if not torch._C._dispatch_has_kernel(qualified):  # a helper of TorchScript, not an operator
        return False
    wrong = (torch.Tag.nondeterministic_seeded, torch.Tag.data_dependent_output, torch.Tag.dynamic_output_shape)
    return not ops.has_tag(op, *wrong)


_FILLABLE: Final = (
    "Tensor", "List[Tensor]", "int", "number", "float", "bool", "str", "List[int]", "List[float]",
    "Optional[Tensor]", "Optional[int]", "Optional[number]", "Optional[float]", "Optional[bool]", "Optional[str]",
    "Optional[List[int]]", "Optional[List[float]]",
)  # fmt: skip


@functools.cache
def of_arity(tensors: int) -> tuple[str, ...]:
    """Functional overloads that take this many tensors."""
    return tuple(name for name in functional() if arity(name) == tensors)


def arity(name: str) -> int:
    """How many tensors a functional overload needs; -1 for anything else."""
    found = signature(name)
    return found.tensors if found is not None and not found.in_place else -1

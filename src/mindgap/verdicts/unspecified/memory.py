"""Memory that was never written, and memory that one call both reads and writes."""

from __future__ import annotations

import math
from typing import Any, Final

import torch

from mindgap.program import ops
from mindgap.program.operators import traits
from mindgap.verdicts.runner import Call, tensors_in
from mindgap.verdicts.unspecified.rule import Rule
from mindgap.verdicts.unspecified.special import always, taint, taint_all

EXACT_ELEMENTS: Final = 1 << 22
"""Up to this many elements it is found out which memory two tensors share; beyond, the ranges alone decide."""


def _grows(call: Call) -> bool:
    """Whether resize_ makes room that was never written."""
    call.note = call.args[0].numel()
    return bool(math.prod(call.argument(1, "size", ())) > call.note)


def _fill_rest(call: Call, result: Any, attempt: int, generator: torch.Generator) -> Any:
    taint(result.view(-1)[call.note :], attempt, generator)
    return result


def may_overlap(op: str) -> bool:
    """Whether calls of an operator write to an argument and read another one."""
    return ops.declares_writes(op)


def _overlaps(call: Call) -> bool:
    """Whether the call writes to memory that it also reads as another tensor."""
    if not (call.is_operator and may_overlap(call.op)):
        return False
    written = call.mutated()
    read = [tensor for tensor in call.tensors() if all(tensor is not target for target in written)]
    return any(_share(target, tensor, _is_elementwise(call)) for target in written for tensor in read)


def _is_elementwise(call: Call) -> bool:
    """Whether each element is written from the elements of the same index: reading those themselves is no overlap."""
    return call.name == "copy" or ops.has_tag(call.op, torch.Tag.pointwise)


def _share(target: torch.Tensor, source: torch.Tensor, elementwise: bool) -> bool:
    if target.untyped_storage().data_ptr() != source.untyped_storage().data_ptr():
        return False
    if not target.numel() or not source.numel():
        return False
    same = target.data_ptr() == source.data_ptr() and target.stride() == source.stride()
    if elementwise and same and target.shape == source.shape and target.dtype == source.dtype:
        return False
    (low, high), (first, last) = _range(target), _range(source)
    if high < first or last < low:
        return False
    if max(target.numel(), source.numel()) > EXACT_ELEMENTS or target.element_size() != source.element_size():
        return True
    return bool(torch.isin(_addresses(target), _addresses(source)).any())


def _range(tensor: torch.Tensor) -> tuple[int, int]:
    """The first and the last byte of a tensor in its storage."""
    first = int(tensor.storage_offset())
    last = first + sum((size - 1) * step for size, step in zip(tensor.shape, tensor.stride()))
    return first * tensor.element_size(), (last + 1) * tensor.element_size() - 1


def _addresses(tensor: torch.Tensor) -> torch.Tensor:
    """Where each element lies in the storage."""
    found = torch.full(tensor.shape, int(tensor.storage_offset()), dtype=torch.int64)
    for axis, step in enumerate(tensor.stride()):
        shape = [1] * tensor.dim()
        shape[axis] = -1
        found += (torch.arange(tensor.shape[axis]) * step).reshape(shape)
    return found


def _taint_written(call: Call, result: Any, attempt: int, generator: torch.Generator) -> Any:
    for tensor in tensors_in(call.mutated()):
        taint(tensor, attempt, generator)
    return result


def _has_unknown_code(call: Call) -> bool:
    """Whether a number stands for none of the names that it may stand for."""
    for name, count in traits(call.op).codes:
        position = ops.position_of(call.op, name)
        if position is not None and call.argument(position, name, 0) not in range(count):
            return True
    return False


def _is_unordered(call: Call) -> bool:
    """Whether elements decrease that must not."""
    for name in traits(call.op).ascending:
        position = ops.position_of(call.op, name)
        given = None if position is None else call.argument(position, name)
        if isinstance(given, torch.Tensor) and given.dim() and bool((given[1:] < given[:-1]).any()):
            return True
    return False


def _not_a_number(call: Call) -> bool:
    """Whether a polynomial of at least the second degree is asked for at NaN."""
    first, degree = (torch.as_tensor(argument) for argument in call.args[:2])
    return bool(first.isnan().any()) and bool((degree >= 2).any())


def _taint_at_nan(call: Call, result: Any, attempt: int, generator: torch.Generator) -> Any:
    other = result.clone()
    taint(other, attempt, generator)
    result.copy_(torch.where(torch.as_tensor(call.args[0]).isnan(), other, result))
    return result


RULES: Final = (
    Rule(
        "unwritten-polynomial",
        _not_a_number,
        _taint_at_nan,
        "at NaN eager ends the recurrence before it writes its result, and returns what another element left there",
        "ATen/native/Math.h: `T r;` is assigned in a loop that runs while `!std::isnan(q)`, and returned",
        attempts=2,
        unsteady=True,
    ),
    Rule(
        "uninitialised-memory",
        always,
        taint_all,
        "the tensor was never written: it holds whatever was in memory",
        "torch.empty: 'a tensor filled with uninitialized data'",
        attempts=2,
        unsteady=True,
    ),
    Rule(
        "resized-memory",
        _grows,
        _fill_rest,
        "the elements that resize_ adds were never written",
        "torch.Tensor.resize_: 'any new memory is uninitialized'",
        attempts=2,
        unsteady=True,
    ),
    Rule(
        "unknown-mode",
        _has_unknown_code,
        taint_all,
        "no mode has this number: eager checks only the names of modes and leaves the result unwritten",
        "torch.nn.functional.grid_sample: 'bilinear' | 'nearest' | 'bicubic', 'zeros' | 'border' | 'reflection'",
        attempts=2,
        unsteady=True,
        invalid=True,
    ),
    Rule(
        "unordered-offsets",
        _is_unordered,
        taint_all,
        "bags that end before they begin: eager does not check it and reads foreign memory",
        "pytorch#55549: 'throwing an error for non-monotonically-increasing offsets is the right way to go'",
        attempts=2,
        unsteady=True,
        invalid=True,
    ),
    Rule(
        "overlapping-memory",
        _overlaps,
        _taint_written,
        "the operator reads memory that it also writes, without a copy: the order of its elements decides the result",
        "torch.Tensor.expand: 'in-place operations (especially ones that are vectorized) may result in incorrect "
        "behavior'",
        attempts=2,
    ),
)

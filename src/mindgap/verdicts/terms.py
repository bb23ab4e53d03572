"""What an operator adds up, and how much of it."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache
from typing import Any, Final

import torch

from mindgap.program import ops
from mindgap.program.graph import map_leaves
from mindgap.program.operators import Terms, traits
from mindgap.verdicts.runner import Call, default_dtype, tensors_in, widened

LARGEST: Final = {
    kind: torch.finfo(kind).max
    for kind in (torch.float16, torch.bfloat16, torch.float32, torch.float64, torch.complex64, torch.complex128)
}
"""The largest number by type: of those that arithmetic is done in."""

NO_KERNEL: Final = (RuntimeError, TypeError, ValueError, IndexError)
"""What operators raise that do not take a type or a layout."""

_ADDED: Final[dict[Terms, Callable[[Any, Sequence[Any]], Sequence[int]]]] = {
    Terms.ONE: lambda first, args: (),
    Terms.INNER: lambda first, args: first.shape[-1:],
    Terms.KERNEL: lambda first, args: args[1].shape[1:],
    Terms.NORMALISED: lambda first, args: args[1],
    Terms.CHANNEL: lambda first, args: [*first.shape[:1], *first.shape[2:]],
    Terms.SEQUENCE: lambda first, args: [max(first.shape[-2:])],
    Terms.LAST: lambda first, args: first.shape[-1:],
    Terms.DIM: lambda first, args: [first.shape[args[1]]],
}
"""The sizes of what is added up, from the first operand and all arguments."""


def length(call: Call) -> int:
    """How many terms the operator adds up for one element of its result."""
    known = traits(call.op)
    try:
        if known.terms is Terms.DIMS:
            return _reduced(call)
        if known.terms is Terms.WINDOW:
            return _window(call)
        if known.terms is Terms.COUNTED or accumulates(call):
            return int(made(call, torch.ones_like, wide=False).max())
        return math.prod(_ADDED[known.terms](call.args[known.operands[0] if known.operands else 0], call.args))
    except (AttributeError, *NO_KERNEL):
        return 1


def _reduced(call: Call) -> int:
    """Elements a reduction folds into one; the whole tensor when it has no `dim`."""
    first = call.args[0]
    dims = next((a for a in call.args[1:] if isinstance(a, list | tuple)), call.kwargs.get("dim"))
    if dims is None and len(call.args) > 1 and type(call.args[1]) is int and "dim" in call.op:
        dims = call.args[1]
    if dims is None or (isinstance(dims, list | tuple) and not dims):
        return int(first.numel())
    return math.prod(first.shape[d] for d in ([dims] if isinstance(dims, int) else dims))


def alone(call: Call) -> bool:
    """Whether a normalisation takes the mean of one element, which is the element."""
    known = traits(call.op)
    first = call.args[0] if known.centres else None
    if first is None or not first.numel():
        return False
    if known.terms is not Terms.DIMS:
        return length(call) == 1
    groups = next((call.args[at] for name in ("num_groups", "group")
                   if (at := ops.position_of(call.op, name)) is not None), first.shape[1])  # fmt: skip
    return bool(first.numel() == first.shape[0] * groups)


def _window(call: Call) -> int:
    """Elements of one window of a pooling, which is given as such or follows from the size of the result."""
    sizes = call.args[0].shape[-traits(call.op).spatial :]
    given = call.args[1] if isinstance(call.args[1], list | tuple) else [call.args[1]]
    given = [*given] * (len(sizes) if len(given) == 1 else 1)
    if ops.position_of(call.op, "output_size") is None:
        return math.prod(given)
    return math.prod(math.ceil(size / max(1, wanted or size)) for size, wanted in zip(sizes, given))


def accumulates(call: Call) -> bool:
    """Whether a scatter adds up what lands on one element."""
    if not call.is_operator:
        return False
    position = ops.position_of(call.op, "accumulate")
    return position is not None and call.argument(position, "accumulate", False) is True


@cache
def may_add(op: str) -> bool:
    """Whether calls of an operator add up terms whose order may matter."""
    known = traits(op)
    return known.sums or known.transforms or ops.position_of(op, "accumulate") is not None


def adds_up(call: Call) -> bool:
    """Whether the call adds up products of its tensors' elements, so that `sizes` tells the sum of |terms|."""
    return call.is_operator and (traits(call.op).sums or accumulates(call))


def cancels(call: Call) -> bool:
    """Whether the call rounds a product or a function and then adds it to one more term: `a + alpha * b`, or a product
    of complex numbers."""
    if traits(call.op).cancels:
        return True
    position = ops.position_of(call.op, "alpha") if call.is_operator else None
    alpha = 1 if position is None else call.argument(position, "alpha", 1)
    is_power_of_two = alpha == 0 or abs(math.frexp(alpha.real)[0]) == 0.5  # then the product does not round
    return not is_power_of_two or any(tensor.is_complex() for tensor in call.tensors())


def transformed(call: Call) -> list[int]:
    """The dimensions that a Fourier transform adds up along; all of them where it names none."""
    position = ops.position_of(call.op, "dim") or 0
    dims = call.argument(position, "dim", ops.arguments_of(call.op)[position].default_value)
    return list(range(call.args[0].dim())) if dims is None else [dims] if isinstance(dims, int) else list(dims)


def made(call: Call, change: Callable[[torch.Tensor], torch.Tensor] | None = None, wide: bool = True) -> torch.Tensor:
    """The first result of a call for changed tensors, in float64 or in its own precision; nothing is written to."""
    call = widened(call, copies=True) if wide else on_copies(call)
    if change is not None:

        def changed(leaf: Any) -> Any:
            return change(leaf) if isinstance(leaf, torch.Tensor) and leaf.dtype in LARGEST else leaf

        call = replace(call, args=map_leaves(call.args, changed), kwargs=map_leaves(call.kwargs, changed))
    with default_dtype(torch.float64 if wide else torch.get_default_dtype()):
        result = call.make()
    return (call.mutated() if call.inplace else tensors_in(result))[0]


def on_copies(call: Call) -> Call:
    """The same call, which leaves its arguments as they are."""

    def copied(leaf: Any) -> Any:
        return leaf.clone() if isinstance(leaf, torch.Tensor) else leaf

    return replace(call, args=map_leaves(call.args, copied), kwargs=map_leaves(call.kwargs, copied))


def finite(tensor: torch.Tensor) -> torch.Tensor:
    """Without infinities and NaN."""
    return torch.nan_to_num(tensor, 0.0, 0.0, 0.0)


def sizes(call: Call, wide: bool = True) -> torch.Tensor:
    """The sum of all |terms| that are finite, for each element of a sum."""
    weights = {name: abs(value) for name, value in call.kwargs.items() if name in ("alpha", "beta")}
    return made(replace(call, kwargs=call.kwargs | weights), lambda tensor: finite(tensor).abs(), wide)


def exactly_added(call: Call) -> torch.Tensor | None:
    """Where no order of the terms rounds: not even their sizes do, and none is too small for float64 to see that."""
    try:
        whole, own = sizes(call), sizes(call, wide=False)
        smallest = 1.0
        for tensor in call.tensors():
            if tensor.dtype in LARGEST and bool((tensor != 0).any()):
                smallest *= min(1.0, float(tensor[tensor != 0].abs().min()))
    except NO_KERNEL:
        return None
    return (own == whole) & (whole * torch.finfo(torch.float64).eps <= smallest)

"""What an operator adds up, and how much of it."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, Final

from mindgap.program import ops
from mindgap.program.operators import Terms, traits
from mindgap.verdicts.runner import Call

_ADDED: Final[dict[Terms, Callable[[Any, Sequence[Any]], Sequence[int]]]] = {
    Terms.ONE: lambda first, args: (),
    Terms.INNER: lambda first, args: first.shape[-1:],
    Terms.KERNEL: lambda first, args: args[1].shape[1:],
    Terms.NORMALISED: lambda first, args: args[1],
    Terms.CHANNEL: lambda first, args: [*first.shape[:1], *first.shape[2:]],
    Terms.SEQUENCE: lambda first, args: [max(first.shape[-2:])],
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
        return math.prod(_ADDED[known.terms](call.args[known.operands[0] if known.operands else 0], call.args))
    except (AttributeError, IndexError, TypeError, ValueError):
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
    position = ops.position_of(call.op, "accumulate")
    return position is not None and call.argument(position, "accumulate", False) is True

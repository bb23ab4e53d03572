"""Ties, and several writes to one index."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

import torch

from mindgap.program import ops
from mindgap.program.operators import traits
from mindgap.verdicts.runner import Call
from mindgap.verdicts.unspecified.rule import Rule

# ---- equal values have no order


def dimension(call: Call) -> int | None:
    """The dimension that an ordering operator works along; None when it takes the whole tensor."""
    position = ops.position_of(call.op, "dim")
    if position is None or not call.args[0].dim():
        return None
    found: int | None = call.argument(position, "dim", ops.arguments_of(call.op)[position].default_value)
    return found


def _tie_matches(call: Call) -> bool:
    source = call.args[0]
    if not isinstance(source, torch.Tensor) or source.numel() < 2:
        return False
    if call.argument(1, "stable") is True and "stable" in call.op:
        return False
    if len(call.function._schema.returns) == traits(call.op).indices:  # type: ignore[attr-defined]
        return False  # returns a value, not an index
    axis = dimension(call)
    same = _neighbours(source.reshape(-1) if axis is None else source, -1 if axis is None else axis)[2]
    return bool(same.any())


def _neighbours(source: torch.Tensor, axis: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """The elements in order, their places, and which are equal to the one behind them."""
    ordered, places = source.sort(dim=axis, stable=True)
    count = ordered.shape[axis] - 1
    before, after = ordered.narrow(axis, 0, count), ordered.narrow(axis, 1, count)
    same = before == after
    return ordered, places, same | (before.isnan() & after.isnan()) if source.is_floating_point() else same


def _next_of_a_tie(source: torch.Tensor, axis: int) -> torch.Tensor:
    """For each place that of the next equal element, round in circles; its own where no other is equal."""
    ordered, places, same = _neighbours(source, axis)
    ranks = torch.ones_like(places).cumsum(axis) - 1
    edge = torch.zeros_like(ordered.narrow(axis, 0, 1), dtype=torch.bool)
    first = ranks.masked_fill(torch.cat([edge, same], axis), 0).cummax(axis).values
    following = torch.where(torch.cat([same, edge], axis), ranks + 1, first)
    return torch.empty_like(places).scatter_(axis, places, places.gather(axis, following))


def _tie_scramble(call: Call, result: Any, attempt: int, generator: torch.Generator) -> Any:
    """Each element of a tie for the next one; then order the same values after shuffling them."""
    source = call.args[0]
    axis = dimension(call)
    flat = source.reshape(-1) if axis is None else source
    along = 0 if axis is None else axis % source.dim()
    count = flat.shape[along]
    if attempt == 0 and not call.name.startswith("cum"):  # a running maximum knows no element behind it
        return _in_place_of(result, flat, along, axis)
    order = torch.arange(count).flip(0) if attempt < 2 else torch.randperm(count, generator=generator)
    moved = flat.index_select(along, order)
    again = replace(call, args=[moved if axis is not None else moved.reshape(source.shape), *call.args[1:]]).make()
    if isinstance(again, torch.Tensor):
        return order[again]
    values, positions = again
    return values, order[positions]


def _in_place_of(result: Any, flat: torch.Tensor, along: int, axis: int | None) -> Any:
    """The same result with each place that it names replaced by that of an equal element, where there is one."""
    values, positions = (None, result) if isinstance(result, torch.Tensor) else result
    tied = _next_of_a_tie(flat, along)
    if axis is None:
        other = tied[positions]
    elif positions.dim() == flat.dim():
        other = tied.gather(along, positions)
    else:
        other = tied.gather(along, positions.unsqueeze(along)).squeeze(along)
    return other if values is None else (values, other)


# ---- an order that was not asked for


def _is_unsorted(call: Call) -> bool:
    wanted = call.argument(4, "sorted", True) if call.name == "topk" else call.argument(1, "sorted", True)
    return wanted is False


def _reverse(call: Call, result: Any, attempt: int, generator: torch.Generator) -> Any:
    """The same elements the other way round."""
    if call.name == "topk":
        return tuple(part.flip(dimension(call) or 0) for part in result)
    values, inverse, counts = result
    return values.flip(0), len(values) - 1 - inverse, counts.flip(0)


# ---- the last write wins, but which is last?


def _targets(call: Call) -> torch.Tensor | None:
    """Where a write lands, as one number for each element or row; None when it adds up."""
    target = call.args[0]
    if call.name == "scatter":
        if "reduce" in call.op or not isinstance(call.argument(3, "src"), torch.Tensor):
            return None
        axis = call.args[1] % max(1, target.dim())
        index = call.args[2]
        grid = torch.meshgrid(*(torch.arange(size) for size in index.shape), indexing="ij") if index.dim() else ()
        return _linear([index if i == axis else g for i, g in enumerate(grid)], list(target.shape))
    if call.name == "index_copy":
        return torch.as_tensor(call.args[2]).reshape(-1)
    if call.argument(3, "accumulate", False):
        return None
    if call.name == "put":
        return torch.as_tensor(call.args[1]).reshape(-1)
    given = [(size, index) for size, index in zip(target.shape, call.args[1]) if isinstance(index, torch.Tensor)]
    if not given or any(index.dtype is torch.bool for _, index in given):
        return None
    shared = torch.broadcast_tensors(  # type: ignore[no-untyped-call]
        *(index % size for size, index in given)
    )
    return _linear(list(shared), [size for size, _ in given])


def _linear(indices: list[torch.Tensor], sizes: list[int]) -> torch.Tensor:
    target = torch.zeros((), dtype=torch.int64)
    for index, size in zip(indices, sizes):
        target = target * size + index
    return target.reshape(-1)


def _duplicate_matches(call: Call) -> bool:
    targets = _targets(call)
    return targets is not None and targets.numel() > 1 and len(torch.unique(targets)) < targets.numel()


def _duplicate_scramble(call: Call, result: Any, attempt: int, generator: torch.Generator) -> Any:
    """Write in the reverse order; the operator wrote already, so that every element is written again."""
    target = result if isinstance(result, torch.Tensor) else call.args[0]
    args = [target, *call.args[1:]]
    if call.name == "scatter":
        axis = call.args[1]
        args[2] = call.args[2].flip(axis)
        source = call.argument(3, "src")
        length = call.args[2].shape[axis] if call.args[2].dim() else 1
        args[3:4] = [source.narrow(axis, 0, length).flip(axis) if source.dim() else source]
    elif call.name == "index_copy":
        args[2], args[3] = call.args[2].flip(0), call.args[3].flip(call.args[1])
    elif call.name == "put":
        args[1], args[2] = call.args[1].reshape(-1).flip(0), call.args[2].reshape(-1).flip(0)
    else:
        given = [index for index in call.args[1] if isinstance(index, torch.Tensor)]
        shape = torch.broadcast_shapes(*(index.shape for index in given))  # type: ignore[no-untyped-call]
        count = shape[0] if shape else 1
        if not shape or call.args[2].dim() == 0 or count not in call.args[2].shape:
            return result
        axis = list(call.args[2].shape).index(count)
        args[1] = [index.expand(shape).flip(0) if isinstance(index, torch.Tensor) else index for index in call.args[1]]
        args[2] = call.args[2].flip(axis)
    return replace(call, args=args, kwargs={k: v for k, v in call.kwargs.items() if k != "src"}).make()


RULES: Final = (
    Rule(
        "tie-order",
        _tie_matches,
        _tie_scramble,
        "equal values come in any order unless the sort is stable",
        "torch.sort (stable=False), torch.topk, torch.argmax: 'If there are multiple maximal values'",
    ),
    Rule(
        "unsorted",
        _is_unsorted,
        _reverse,
        "with sorted=False the elements come in any order",
        "torch.topk, torch.unique: 'sorted'",
        attempts=1,
    ),
    Rule(
        "duplicate-writes",
        _duplicate_matches,
        _duplicate_scramble,
        "several values are written to one element and any of them may win",
        "torch.Tensor.scatter_: 'nondeterministic when indices are not unique'; torch.Tensor.index_put_",
        attempts=1,
    ),
)

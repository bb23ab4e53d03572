"""What else a node could give: its call made again with arguments beyond those that ordinary inputs bring.

A value that rests is a gate only if something can move it. So the node alone is called with its arguments carried on
along the way that leads from one ordinary input to another, and with arguments that are made equal: a comparison, a
saturated sigmoid and an exact match answer, what is constant by construction does not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final

import torch

from mindgap.audit.flow import Flow
from mindgap.audit.watching import Watcher, flat
from mindgap.program.graph import Node, Ref, map_leaves
from mindgap.program.inputs import copy_of
from mindgap.program.operators import traits

NEAR: Final = (3.0, 10.0, 30.0)
FAR: Final = (100.0, 1e3)
"""How far arguments are carried on, in distances between two ordinary inputs; far only for what rests exactly. Farther,
arguments that differ by rounding alone (the mean of what was normalised) would seem to differ."""
LARGEST: Final = 1 << 22
"""Elements of an argument that is kept."""


@dataclass(frozen=True)
class Reach:
    """A value that a node gives when its arguments go beyond the ordinary."""

    value: torch.Tensor
    """Flat, in float64."""
    far: float
    """How far the arguments went; 0 where they were made equal or inverted."""
    arguments: tuple[Any, ...]
    """What it was called with."""


@dataclass
class Calls:
    """The calls of some nodes in two ordinary runs."""

    wanted: frozenset[int]
    seen: dict[int, list[tuple[Callable[..., Any], list[Any], dict[str, Any]]]] = field(default_factory=dict)

    def record(self, watcher: Watcher, runs: tuple[int, int]) -> None:
        def call(node: Node, function: Callable[..., Any], args: list[Any], kwargs: dict[str, Any]) -> Any:
            tensors = [leaf for leaf in args if isinstance(leaf, torch.Tensor)]
            if all(tensor.numel() <= LARGEST for tensor in tensors):
                kept = [copy_of(leaf) if isinstance(leaf, torch.Tensor) else _copied(leaf) for leaf in args]
                self.seen.setdefault(node.id, []).append((function, kept, kwargs))
            return function(*args, **kwargs)

        for run in runs:
            watcher.run(watcher.given[run], None, call, self.wanted)

    def reaches(self, node: Node, flow: Flow, distances: tuple[float, ...]) -> Iterator[Reach]:
        """What the node gives when those of its arguments that are derived from the input go beyond the ordinary."""
        calls = self.seen.get(node.id, [])
        if len(calls) < 2:
            return
        function, first, kwargs = calls[0]
        second = calls[1][1]
        given = {n: int(argument) for n, argument in enumerate(node.args) if isinstance(argument, Ref)}
        movable = [n for n, value in given.items() if value in flow.derived]
        # An argument that rests may be moved only if it is saturated itself: else it came to rest for another reason.
        saturated = {n for n in movable if flow.saturates(given[n])}
        for far, args in _beyond(node, movable, saturated, first, second, distances):
            try:
                with torch.no_grad():
                    result = function(*[_fresh(arg) for arg in args], **kwargs)
            except Exception:  # arguments that it refuses
                continue
            if isinstance(result, torch.Tensor):
                value = flat(result)
                if bool(value.isfinite().all()):
                    yield Reach(value, far, tuple(args))


def _beyond(
    node: Node,
    movable: list[int],
    saturated: set[int],
    first: list[Any],
    second: list[Any],
    distances: tuple[float, ...],
) -> Iterator[tuple[float, list[Any]]]:
    """Arguments beyond the ordinary."""
    read = movable[:1] if traits(node.op).lends else movable
    tensors = [n for n in read if isinstance(first[n], torch.Tensor) and isinstance(second[n], torch.Tensor)]
    tensors = [n for n in tensors if first[n].shape == second[n].shape]
    varying = [n for n in tensors if not torch.equal(first[n], second[n])]
    tensors = [n for n in tensors if n in varying or n in saturated or first[n].dtype is torch.bool]
    yield from ((0.0, args) for args in _equal(first, tensors))
    if 0 in tensors and first[0].is_floating_point():
        yield 0.0, [torch.full_like(first[0], float("nan")), *first[1:]]
    for n in tensors:
        if first[n].dtype is torch.bool:
            yield 0.0, [~arg if place == n else arg for place, arg in enumerate(first)]
    moving = [n for n in varying if first[n].is_floating_point()]
    still = [n for n in tensors if n in saturated and first[n].is_floating_point()] if not varying else []
    for distance in distances:
        for far in (distance, -distance):
            if moving:
                yield distance, _moved(first, {n: far * (second[n] - first[n]).nan_to_num() for n in moving})
            for n in still:
                yield distance, _moved(first, {n: far * torch.ones_like(first[n])})
        if len(moving) > 1:
            for n in moving:
                yield distance, _moved(first, {n: distance * (second[n] - first[n]).nan_to_num()})
                yield distance, _moved(first, {n: -distance * (second[n] - first[n]).nan_to_num()})


def _moved(args: list[Any], steps: dict[int, torch.Tensor]) -> list[Any]:
    return [(arg + steps[n]).to(arg.dtype) if n in steps else arg for n, arg in enumerate(args)]


def _equal(args: list[Any], tensors: list[int]) -> Iterator[list[Any]]:
    """One of the first two arguments in place of the other, where it fits; then on either side of it."""
    if len(args) < 2:
        return
    for one, other in ((0, 1), (1, 0)):
        number = isinstance(args[other], int | float) and not isinstance(args[other], bool)
        if one not in tensors or not (number or isinstance(args[other], torch.Tensor)):
            continue
        try:
            put = torch.as_tensor(args[other]).to(args[one].dtype).expand(args[one].shape)
        except RuntimeError:
            continue
        sides = [put, put + (put.abs() + 1), put - (put.abs() + 1)] if put.is_floating_point() else [put]
        yield from ([side if n == one else arg for n, arg in enumerate(args)] for side in sides)


def _copied(argument: Any) -> Any:
    return map_leaves(argument, lambda leaf: copy_of(leaf) if isinstance(leaf, torch.Tensor) else leaf)


def _fresh(argument: Any) -> Any:
    """An argument that the call may write to."""
    return _copied(argument) if isinstance(argument, torch.Tensor | list | tuple) else argument

"""Running a program, operator by operator, with any torch."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import torch

from mindgap.errors import ProgramError
from mindgap.program import ops
from mindgap.program.graph import Argument, Node, Program, Ref, Tensors, leaves, map_leaves, references
from mindgap.program.memo import Memo

Observer: TypeAlias = Callable[[Node, Any], Any]
"""Sees each node's result and returns what the rest of the program sees."""

Caller: TypeAlias = Callable[[Node, Callable[..., Any], list[Any], dict[str, Any]], Any]
"""Makes the call of one node instead of the interpreter."""


_PLAIN: Final = frozenset({int, float, bool, str, type(None)})
"""What is passed on as it is."""


_RAISED_AT: Final = "mindgap_operator"
"""The attribute of an exception that came out of a node's call."""


def raised_at(error: BaseException) -> str:
    """The operator whose call in a program raised an exception; empty where it came from elsewhere."""
    return str(getattr(error, _RAISED_AT, ""))


@dataclass(frozen=True, slots=True)
class _Nested:
    """A list, tuple or dict with references inside."""

    structure: Argument


_Ready: TypeAlias = tuple[Callable[..., Any], list[Argument], dict[str, Argument]]
"""The function of a node and its arguments."""


class Executable:
    """A program prepared to run: operators resolved, constants placed, dead values known.

    Map of what a caller may take over:

        run(inputs)
          -> for each node:  call(node, function, args, kwargs)   replaced by `caller`
                             observe(node, result)                replaced by `observer`
          -> outputs in the nesting of the program
    """

    def __init__(self, program: Program, constants: Tensors, device: torch.device | None = None) -> None:
        self.program = program
        self._device = device
        self._constants = {c.id: self._place(constants[c.digest]) for c in program.constants}
        self._written = written(program, [c.id for c in program.constants])
        last_use = _last_uses(program)
        ready = _ready if device is None else lambda node: _made_ready(node, device)
        self._steps = [(node, *ready(node), last_use[node.id]) for node in program.nodes]

    def run(
        self,
        inputs: Sequence[torch.Tensor],
        observer: Observer | None = None,
        caller: Caller | None = None,
        called: frozenset[int] | None = None,
    ) -> Argument:
        """The program's outputs; inputs are used as given, so in-place operators change them.

        With `called`, the caller makes only the calls of these nodes.
        """
        if len(inputs) != len(self.program.inputs):
            raise ProgramError(f"{self.program.name} takes {len(self.program.inputs)} inputs, but got {len(inputs)}")
        values: dict[int, Any] = {
            identity: tensor.clone() if identity in self._written else tensor
            for identity, tensor in self._constants.items()
        }
        values.update((item.id, tensor) for item, tensor in zip(self.program.inputs, inputs))

        def look_up(leaf: Any) -> Any:
            return values[leaf] if type(leaf) is Ref else leaf

        def value_of(argument: Any) -> Any:
            kind = type(argument)
            if kind is Ref:
                return values[argument]
            return map_leaves(argument.structure, look_up) if kind is _Nested else argument

        for node, function, arguments, named, dead in self._steps:
            args = [value_of(argument) for argument in arguments]
            kwargs = {key: value_of(argument) for key, argument in named.items()} if named else {}
            try:
                if caller is None or (called is not None and node.id not in called):
                    result = function(*args, **kwargs)
                else:
                    result = caller(node, function, args, kwargs)
            except Exception as error:
                with contextlib.suppress(AttributeError):
                    setattr(error, _RAISED_AT, node.op)
                raise
            values[node.id] = observer(node, result) if observer else result
            for identity in dead:
                del values[identity]
        return map_leaves(self.program.outputs, look_up)

    def _place(self, tensor: torch.Tensor) -> torch.Tensor:
        return tensor if self._device is None else tensor.to(self._device)


def _made_ready(node: Node, device: torch.device | None = None) -> _Ready:
    """A node whose arguments need only be looked up."""
    kwargs = {key: _placed(argument, device) for key, argument in node.kwargs.items()}
    return ops.resolve(node.op), [_placed(argument, device) for argument in node.args], kwargs


_ready: Final = Memo(_made_ready)


def _placed(argument: Argument, device: torch.device | None) -> Argument:
    """An argument with its devices replaced; only nested ones with references are left to look up."""
    kind = type(argument)
    if kind in _PLAIN or kind is Ref:
        return argument
    if kind in (list, tuple) and all(type(leaf) in _PLAIN for leaf in argument):
        return argument

    def place(leaf: Any) -> Any:
        return device if isinstance(leaf, torch.device) and device is not None else leaf

    placed = map_leaves(argument, place)
    nested = not isinstance(placed, Ref) and any(isinstance(leaf, Ref) for _, leaf in leaves(placed))
    return _Nested(placed) if nested else placed


def written(program: Program, candidates: Iterable[int]) -> set[int]:
    """Which of these values an in-place operator may change, directly or through a view."""
    if not any(map(written_by, program.nodes)):
        return set()
    roots: dict[int, frozenset[int]] = {identity: frozenset([identity]) for identity in candidates}
    found: set[int] = set()
    for node in program.nodes:
        for position, name in written_by(node):
            for _, leaf in leaves(_argument(node, position, name)):
                if isinstance(leaf, Ref):
                    found |= roots.get(leaf, frozenset())
        aliased = ops.aliased_arguments(node.op)
        given = [value for key, value in (*enumerate(node.args), *node.kwargs.items()) if key in aliased]
        touched = [roots[leaf] for _, leaf in leaves(given) if isinstance(leaf, Ref) and leaf in roots]
        if touched:
            roots[node.id] = frozenset().union(*touched)
    return found


def written_by(node: Node) -> tuple[tuple[int, str], ...]:
    """Position and name of the arguments that the call of a node writes to.

    A normalisation keeps statistics only in training, and only where it is given some.
    """
    writes = ops.mutated_arguments(node.op)
    if not writes:
        return ()
    if any(_argument(node, ops.position_of(node.op, name), name) is False for name in ("training", "use_input_stats")):
        return ()
    return tuple(place for place in writes if _argument(node, *place) is not None)


def _argument(node: Node, position: int | None, name: str) -> Any:
    """An argument of a call; None where it is left out."""
    return node.args[position] if position is not None and position < len(node.args) else node.kwargs.get(name)


def _last_uses(program: Program) -> dict[int, list[int]]:
    """For each node, the values that nothing needs after it."""
    keep = {int(leaf) for _, leaf in leaves(program.outputs) if isinstance(leaf, Ref)}
    seen = set(keep)
    dead: dict[int, list[int]] = {}
    for node in reversed(program.nodes):
        unused = {*references(node), node.id} - seen
        dead[node.id] = sorted(unused)
        seen |= unused
    return dead

"""Walking through arguments, thousands of times per second: plain types are tested first, without generators.

`program.graph` has the same for any mapping; here a node's arguments are lists, tuples, references and literals.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from mindgap.program.graph import Argument, Node, Ref, references


def reads(node: Node) -> list[int]:
    """The ids that a node reads, each once, in order of appearance."""
    return list(dict.fromkeys(references(node)))


def substitute(argument: Argument, change: Callable[[Ref], Any]) -> Any:
    """The argument with every reference replaced."""
    kind = type(argument)
    if kind is Ref:
        return change(argument)
    if kind is list:
        return [substitute(item, change) for item in argument]
    return tuple([substitute(item, change) for item in argument]) if kind is tuple else argument


def substitute_all(
    args: tuple[Argument, ...], kwargs: Mapping[str, Argument], change: Callable[[Ref], Any]
) -> tuple[list[Any], dict[str, Any]]:
    """Positional and keyword arguments with every reference replaced."""
    return [substitute(item, change) for item in args], {k: substitute(item, change) for k, item in kwargs.items()}

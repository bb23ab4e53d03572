"""Builds and calls classes by their signatures, with small values looked up by parameter name."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Mapping
from types import ModuleType
from typing import Any

import torch

from mindgap.errors import ModelError

_NO_NAME = (inspect.Parameter.VAR_KEYWORD, inspect.Parameter.VAR_POSITIONAL)


def parameters(function: Any) -> dict[str, inspect.Parameter]:
    """Parameters by name, without `self`."""
    found = inspect.signature(function).parameters
    return {name: item for name, item in found.items() if name != "self" and item.kind not in _NO_NAME}


def required(function: Any) -> list[str]:
    """Parameters without a default."""
    return [name for name, item in parameters(function).items() if item.default is item.empty]


def takes_any(function: Any) -> bool:
    """Whether a function has **kwargs."""
    return any(item.kind is item.VAR_KEYWORD for item in inspect.signature(function).parameters.values())


def arguments(function: Any, values: Mapping[str, Any], optional: Iterable[str] | None = None) -> dict[str, Any]:
    """The values that a function takes: the required ones, and of the rest those named (all when None).

    Raises ModelError for a required parameter without a value.
    """
    missing = [name for name in required(function) if name not in values]
    if missing:
        raise ModelError(f"nothing is known about its parameter {missing[0]}")
    wanted = set(values if optional is None else optional) | set(required(function))
    return {name: values[name] for name in parameters(function) if name in values and name in wanted}


def buildable(
    package: ModuleType, names: Iterable[str], values: Iterable[str], inputs: Iterable[str]
) -> dict[str, type[torch.nn.Module]]:
    """The module classes among these names whose required parameters and inputs all have values.

    Another name of the same class is left out.
    """
    found: dict[str, type[torch.nn.Module]] = {}
    for name in names:
        kind = getattr(package, name, None)
        if isinstance(kind, type) and issubclass(kind, torch.nn.Module) and kind not in found.values():
            found[kind.__name__ if hasattr(package, kind.__name__) else name] = kind
    return {name: kind for name, kind in found.items() if _can_be_built(kind, values, inputs)}


def _can_be_built(kind: type[torch.nn.Module], values: Iterable[str], inputs: Iterable[str]) -> bool:
    """Whether there are values for all that it needs, and it computes something of its own."""
    takes = required(kind.__init__) if "__init__" in _defined(kind) else []
    called = required(kind.forward) if "forward" in _defined(kind) else ["nothing"]
    return set(takes) <= set(values) and bool(called) and set(called) <= set(inputs)


def _defined(kind: type) -> set[str]:
    """What a class or its parents below Module define."""
    return {name for parent in kind.__mro__ if parent not in (torch.nn.Module, object) for name in vars(parent)}

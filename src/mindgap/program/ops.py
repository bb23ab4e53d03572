"""From an operator's name to the function, and what its schema promises.

Names come from files, so resolving one must never reach anything but an operator: only known namespaces, only
real overloads, and none that touches the file system.
"""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Callable
from typing import Any, Final

import torch

from mindgap.errors import CorruptProgram
from mindgap.program.operators import traits

NAMESPACES: Final = ("aten", "prims", "torchvision", "torchaudio", "quantized_decomposed")

FORBIDDEN: Final = ("aten.from_file",)
"""Operators that read or write files by name."""

SCALAR_FUNCTIONS: Final[dict[str, Callable[..., Any]]] = {
    **{
        f"operator.{name}": getattr(operator, name)
        for name in (
            "getitem", "add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "neg", "pos", "abs",
            "eq", "ne", "lt", "le", "gt", "ge", "and_", "or_", "xor", "not_", "lshift", "rshift",
        )
    },
    **{f"math.{name}": getattr(math, name) for name in ("ceil", "floor", "trunc", "sqrt")},
    **{
        f"torch.{name}": getattr(torch, name)
        for name in ("sym_float", "sym_int", "sym_max", "sym_min", "sym_not", "sym_ite")
    },
}  # fmt: skip
"""Plain Python functions that export leaves in a graph: tuple access and arithmetic on sizes."""

_SCALAR_NAMES: Final = {function: name for name, function in SCALAR_FUNCTIONS.items()}


@functools.cache
def resolve(name: str) -> Callable[..., Any]:
    """The function that a node's operator name stands for."""
    if name in SCALAR_FUNCTIONS:
        return SCALAR_FUNCTIONS[name]
    parts = name.split(".")
    if len(parts) != 3 or parts[0] not in NAMESPACES or name.startswith(FORBIDDEN):
        raise CorruptProgram(f"{name!r} is not an operator that a program may call")
    try:
        packet = getattr(getattr(torch.ops, parts[0]), parts[1])
        overload = getattr(packet, parts[2])
    except AttributeError:
        raise CorruptProgram(
            f"operator {name} does not exist in torch {torch.__version__}",
            hint="the program may come from a newer torch, or needs a package that registers the operator",
        ) from None
    if not isinstance(overload, torch._ops.OpOverload):
        raise CorruptProgram(f"{name!r} is not an operator overload")
    return overload


def name_of(target: object) -> str | None:
    """The operator name of a graph target, or None when a program cannot hold it."""
    if isinstance(target, torch._ops.OpOverload):
        name = f"{target.namespace}.{target._schema.name.split('::')[1]}.{target._overloadname}"
        allowed = target.namespace in NAMESPACES and not name.startswith(FORBIDDEN)
        return name if allowed else None
    return _SCALAR_NAMES.get(target) if callable(target) else None


@functools.cache
def has_tag(name: str, *wanted: torch.Tag) -> bool:
    """Whether torch marks the operator with one of these tags."""
    return not set(wanted).isdisjoint(getattr(resolve(name), "tags", ()))


@functools.cache
def arguments_of(name: str) -> tuple[Any, ...]:
    """The arguments that the operator's schema declares; none of a plain function."""
    schema = getattr(resolve(name), "_schema", None)
    return () if schema is None else tuple(schema.arguments)


@functools.cache
def position_of(name: str, argument: str) -> int | None:
    """The position of the argument of that name, or None."""
    return next((i for i, a in enumerate(arguments_of(name)) if a.name == argument), None)


@functools.cache
def declares_writes(name: str) -> bool:
    """Whether the schema says that the operator writes to an argument."""
    return any(map(_is_written, arguments_of(name)))


@functools.cache
def mutated_arguments(name: str) -> tuple[tuple[int, str], ...]:
    """Position and name of the arguments that the operator writes to, declared or not."""
    silent = traits(name).writes
    return tuple((i, a.name) for i, a in enumerate(arguments_of(name)) if a.name in silent or _is_written(a))


def _is_written(argument: Any) -> bool:
    return argument.alias_info is not None and argument.alias_info.is_write


@functools.cache
def returns_first_argument(name: str) -> bool:
    """Whether the result is the first argument itself, changed in place (`add_`)."""
    function = resolve(name)
    if not isinstance(function, torch._ops.OpOverload) or len(function._schema.returns) != 1:
        return False
    alias = function._schema.returns[0].alias_info
    return alias is not None and alias.is_write and (0, function._schema.arguments[0].name) in mutated_arguments(name)


def may_alias(name: str) -> bool:
    """Whether a result may share memory with an argument."""
    return bool(aliased_arguments(name))


@functools.cache
def aliased_arguments(name: str) -> frozenset[str | int]:
    """Names and positions of the arguments that a result may share memory with.

    A composite operator may return what it is given, or a view of it, without saying so in its schema (dropout in
    evaluation mode does), so the first tensors of every composite count.
    """
    function = resolve(name)
    if not isinstance(function, torch._ops.OpOverload):
        return frozenset(range(2))
    schema = function._schema
    found = [(i, a.name) for i, a in enumerate(schema.arguments) if a.alias_info is not None]
    if not any(result.alias_info is not None for result in schema.returns):
        qualified = f"{schema.name}.{schema.overload_name}" if schema.overload_name else schema.name
        composite = torch._C._dispatch_has_kernel_for_dispatch_key(qualified, "CompositeImplicitAutograd")
        tensors = [(i, a.name) for i, a in enumerate(schema.arguments) if "Tensor" in str(a.type)]
        found = tensors[:1] if composite else []
    return frozenset(leaf for pair in found for leaf in pair)

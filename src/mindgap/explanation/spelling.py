"""An operator call as a person writes it: `torch.floor_divide(x, y)`, not `aten.floor_divide.default`."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import torch
from torch.nn import functional as F

from mindgap.errors import CorruptProgram
from mindgap.program import ops
from mindgap.program.build import build
from mindgap.program.graph import Node, NodeMeta, Ref, leaves, map_leaves, references
from mindgap.records.tensors import DTYPES, TensorMeta
from mindgap.tracing.extract import is_access

_OPERANDS: Final = ("other", "exponent", "mat2", "size", "shape")
"""Arguments that nobody writes by name."""


def spell(node: Node, names: Mapping[int, str], metas: Mapping[int, NodeMeta], exact: bool) -> str:
    """The first spelling that torch.export turns back into exactly this call; with `exact`, the call itself."""
    if is_access(node):
        return f"{names[int(node.args[0])]}[{node.args[1]!r}]"
    spellings = list(_spellings(node, names))
    if not exact and len(spellings) > 1:
        for text in spellings[:-1]:
            if _means(text, node, names, metas):
                return text
    return spellings[-1]


def literal(value: Any, names: Mapping[int, str]) -> str:
    """An argument as source text."""
    if isinstance(value, Ref):
        return names[int(value)]
    if isinstance(value, list | tuple):
        inner = ", ".join(literal(item, names) for item in value)
        return f"[{inner}]" if isinstance(value, list) or len(value) != 1 else f"({inner},)"
    if isinstance(value, torch.dtype):
        return dtype_name(value)
    if isinstance(value, float):
        return number(value)
    if isinstance(value, torch.device):
        return repr(str(value))
    if isinstance(value, torch.layout | torch.memory_format):
        return str(value)
    return repr(value)


def is_named(dtype: torch.dtype) -> bool:
    """Whether a dtype is a parameter of the code, so that the same code also runs in float64."""
    return dtype.is_floating_point and dtype is not torch.float64


def dtype_name(dtype: torch.dtype) -> str:
    """How a dtype is written in the code."""
    return str(dtype).removeprefix("torch.") if is_named(dtype) else str(dtype)


def number(value: float) -> str:
    """A float as source text."""
    return repr(value) if value - value == 0 else f'float("{value}")'


def _spellings(node: Node, names: Mapping[int, str]) -> Iterator[str]:
    """From what a person would write to the operator's own name, which is always right."""
    parts = node.op.split(".")
    if len(parts) == 2:  # a function of Python, kept by export for sizes
        yield f"{node.op}({_arguments(node, names, by_name=False)})"
        return
    _, base, _ = parts
    by_name = _arguments(node, names, by_name=True)
    by_place = _arguments(node, names, by_name=False)
    first = names[int(node.args[0])] if node.args and isinstance(node.args[0], Ref) else ""
    method = bool(first) and hasattr(torch.Tensor, base) and not base.startswith("_")
    if method and base.endswith("_"):
        yield f"{first}.{base}({_rest(node, names, True)})"
        yield f"{first}.{base}({_rest(node, names, False)})"
    for owner, prefix in ((F, "F"), (torch, "torch")):
        if hasattr(owner, base):
            yield f"{prefix}.{base}({by_name})"
            yield f"{prefix}.{base}({by_place})"
    if method:
        yield f"{first}.{base}({_rest(node, names, True)})"
        yield f"{first}.{base}({_rest(node, names, False)})"
    yield f"torch.ops.{node.op}({by_place})"


def _arguments(node: Node, names: Mapping[int, str], by_name: bool) -> str:
    """Tensors by place; numbers behind them by name where that helps a reader."""
    schema = getattr(ops.resolve(node.op), "_schema", None)
    shown = [literal(value, names) for value in node.args]
    if by_name and schema is not None:
        last = max((i for i, value in enumerate(node.args) if _holds_tensor(value)), default=0)
        count = max(last + 1, 1)
        while count < len(shown) and schema.arguments[count].name in _OPERANDS:
            count += 1
        kept = shown[:count]
        for place in range(len(kept), len(shown)):
            argument = schema.arguments[place]
            if not (argument.has_default_value() and argument.default_value == node.args[place]):
                kept.append(f"{argument.name}={shown[place]}")
        shown = kept
    named = {key: value for key, value in node.kwargs.items() if not _is_default(schema, key, value)}
    return ", ".join([*shown, *(f"{_keyword(key)}={literal(value, names)}" for key, value in named.items())])


def _keyword(name: str) -> str:
    """The name of an argument in source text; programs come from files, so nothing but a name gets there."""
    if not name.isidentifier():
        raise CorruptProgram(f"an argument is called {name[:40]!r}")
    return name


def _rest(node: Node, names: Mapping[int, str], by_name: bool) -> str:
    """All arguments but the first."""
    text = _arguments(node, names, by_name)
    own = literal(node.args[0], names)
    return text[len(own) :].removeprefix(", ")


def _is_default(schema: Any, key: str, value: object) -> bool:
    if schema is None or isinstance(value, Ref):
        return False
    found = next((argument for argument in schema.arguments if argument.name == key), None)
    return found is not None and found.has_default_value() and bool(found.default_value == value)


def _holds_tensor(value: Any) -> bool:
    return any(isinstance(leaf, Ref) for _, leaf in leaves(value))


def _means(text: str, node: Node, names: Mapping[int, str], metas: Mapping[int, NodeMeta]) -> bool:
    """Whether the text, exported, is the same operator with the same arguments. Nothing is computed."""
    read = list(dict.fromkeys(references(node)))
    described = [metas.get(identity) for identity in read]
    if not all(isinstance(meta, TensorMeta) for meta in described):
        return False
    scope = {"torch": torch, "F": F, **{dtype_name(dtype): dtype for dtype in DTYPES.values() if is_named(dtype)}}
    source = f"lambda {', '.join(names[i] for i in read)}: {text}"
    function = _compiled(source.replace("self.", "self_"), scope)  # constants of a module are parameters here
    try:
        calls = _exported(function, [meta for meta in described if isinstance(meta, TensorMeta)])
    except Exception:  # a spelling that torch does not take
        return False
    return len(calls) == 1 and calls[0].op == node.op and _normal(calls[0]) == _normal(node)


def _compiled(text: str, scope: dict[str, Any]) -> Any:
    """The spelling as a function; it is made of operator names, names of arguments and literals only."""
    return eval(text, {**scope, "__builtins__": {"float": float}})


def _exported(function: Any, metas: Sequence[TensorMeta]) -> list[Node]:
    class Wrapped(torch.nn.Module):
        def forward(self, *tensors: torch.Tensor) -> Any:
            return function(*tensors)

    tensors = tuple(torch.empty_strided(m.shape, m.stride, dtype=DTYPES[m.dtype]) for m in metas)
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")
        exported = torch.export.export(Wrapped(), tensors, strict=False)
    program, _ = build(exported, "spelling")
    return [call for call in program.nodes if not is_access(call)]


def _normal(node: Node) -> list[tuple[str, Any]]:
    """Arguments that are not the default, by name; tensors by their order."""
    schema = getattr(ops.resolve(node.op), "_schema", None)
    order: dict[int, str] = {}

    def anonymous(leaf: Any) -> Any:
        if isinstance(leaf, torch.device):
            return "device"
        return order.setdefault(int(leaf), f"tensor {len(order)}") if isinstance(leaf, Ref) else leaf

    positions = [argument.name for argument in schema.arguments] if schema is not None else []
    given = [(positions[i] if i < len(positions) else str(i), value) for i, value in enumerate(node.args)]
    found = []
    for key, value in [*given, *node.kwargs.items()]:
        if not _is_default(schema, key, value):
            plain = map_leaves(value, anonymous)
            found.append((key, list(plain) if isinstance(plain, tuple) else plain))
    return sorted(found, key=lambda item: item[0])

"""A program as text that people read: shapes, dtypes and where each operator comes from."""

from __future__ import annotations

import difflib
import linecache
import sys
from collections.abc import Callable, Collection, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from mindgap.errors import UsageError
from mindgap.program.graph import Node, NodeMeta, Program, Ref, references
from mindgap.records.tensors import TensorMeta
from mindgap.report.explain import short
from mindgap.report.summary import count, many

MOST_ARGUMENT: Final = 60
"""Characters of one argument; a long list is cut."""
MOST_CODE: Final = 100
"""Characters of a line of source code."""


def listing(
    program: Program,
    chosen: Collection[int] | None = None,
    marks: Mapping[int, str] | None = None,
    code: Callable[[str], str] = lambda line: "",
) -> list[str]:
    """The lines of a program, or of a part of it; `marks` stand in front of nodes, `code` tells a line of source."""
    return list(_lines(program, chosen, marks or {}, code))


def _lines(
    program: Program, chosen: Collection[int] | None, marks: Mapping[int, str], code: Callable[[str], str]
) -> Iterator[str]:
    constants = f"{many(len(program.constants), 'constant')} ({count(program.parameter_count())} values)"
    yield f"{program.name}: {many(len(program.nodes), 'operator')}, {many(len(program.inputs), 'input')}, {constants}"
    used = {r for node in program.nodes if chosen is None or node.id in chosen for r in references(node)}
    for item in program.inputs:
        if chosen is None or item.id in used:
            yield f"  %{item.id:<4} input {item.name}: {item.meta}"
    origin, left = ("", ""), 0
    for node in program.nodes:
        if chosen is not None and node.id not in chosen:
            left += 1
            continue
        if left:
            yield f"        ... {many(left, 'operator')} ..."
            left = 0
        if (node.where, node.line) != origin:
            origin = node.where, node.line
            yield "  ".join(["", *filter(None, [node.where or "(top level)", node.line, code(node.line)])])
        yield f"{marks.get(node.id, ' ')}   {text_of(node, program)}"
    if left:
        yield f"        ... {many(left, 'operator')} ..."
    outputs = ", ".join(f"{name} = {value!r}" for name, value in program.output_leaves())
    yield f"  returns {outputs}"


def code_at(line: str) -> str:
    """What `nets/blocks.py:31` says, read from where the user is or imports from; empty where it cannot be found.

    Only for a model whose code was just loaded: a program of somebody else may name any file.
    """
    path, _, number = line.rpartition(":")
    for root in dict.fromkeys(["", *sys.path]):
        file = Path(root, path)
        if path.endswith(".py") and file.is_file():
            return linecache.getline(str(file), int(number)).strip()[:MOST_CODE]
    return ""


def text_of(node: Node, program: Program) -> str:
    """`%12 = conv2d(%0, weight, stride=[2, 2]): float32[1, 16, 48, 48]`."""
    names = {item.id: item.name for item in program.constants}
    given = [_argument(item, names) for item in node.args]
    given += [f"{key}={_argument(item, names)}" for key, item in node.kwargs.items()]
    return f"%{node.id:<4} = {short(node.op)}({', '.join(given)}): {meta_text(node.meta)}"


def find_nodes(program: Program, wanted: str) -> list[int]:
    """The nodes meant by `aten.div`, `div`, `aten.div.Tensor` or `%12`; raises UsageError where there are none."""
    if wanted.startswith("%"):
        found = [node.id for node in program.nodes if f"%{node.id}" == wanted]
    else:
        found = [n.id for n in program.nodes if wanted in (n.op, n.op.rsplit(".", 1)[0], short(n.op))]
    if not found:
        names = sorted({node.op for node in program.nodes})
        near = difflib.get_close_matches(wanted, [*names, *map(short, names)], n=1)
        hint = f"did you mean {near[0]}?" if near else f"it has {', '.join(names[:8])}"
        raise UsageError(f"{program.name} has no operator {wanted}", hint=hint)
    return found


def _argument(value: Any, names: Mapping[int, str]) -> str:
    if isinstance(value, Ref):
        return names.get(int(value)) or repr(value)
    if isinstance(value, list | tuple):
        inner = ", ".join(_argument(item, names) for item in value)
        shown = f"[{inner}]" if isinstance(value, list) else f"({inner})"
    else:
        shown = str(value) if not isinstance(value, str) else repr(value)
    return shown if len(shown) <= MOST_ARGUMENT else f"{shown[: MOST_ARGUMENT - 4]} ..."


def meta_text(meta: NodeMeta) -> str:
    """`float32[1, 16]`; several are listed."""
    if isinstance(meta, TensorMeta):
        return str(meta)
    return f"({', '.join(map(meta_text, meta))})" if isinstance(meta, tuple) else "number"

"""Whether reading an archive of torch.export would execute code from it.

`torch.export.load` (read at torch 2.13, torch/export/pt2_archive/_package.py) executes what a file says in
five places: pickled weights and constants, pickled sample inputs (tried as plain tensors first, then as
anything), script and opaque objects, compiled AOTInductor libraries, and text of the graph: names become source
code of a GraphModule, and size expressions go through sympy's `eval`. An archive in which each of these is
harmless needs no trust.
"""

from __future__ import annotations

import ast
import contextlib
import io
import json
import posixpath
import re
import zipfile
from collections.abc import Callable, Iterator
from typing import Any, Final

import torch

_NAME: Final = re.compile(r"[A-Za-z_][\w.]*")
_NAME_KEYS: Final = ("name", "as_name", "graph_name")
_SYMBOL: Final = re.compile(r"(s|u|zuf|zf|zzf|f)\d+|-?\d+(\.\d+)?(e[-+]?\d+)?")
_SIZE_FUNCTIONS: Final = (
    "Max", "Min", "Mod", "FloorDiv", "CleanDiv", "CeilDiv", "ModularIndexing", "PythonMod", "PowByNatural",
    "IntTrueDiv", "FloatTrueDiv", "TruncToInt", "CeilToInt", "FloorToInt", "RoundToInt", "ToFloat", "Where",
    "Eq", "Ne", "Lt", "Le", "Gt", "Ge", "And", "Or", "Not", "true", "false", "oo", "int_oo", "Identity",
    "Symbol", "Integer", "Rational", "Float", "Add", "Mul", "Pow", "Equality", "Unequality", "StrictLessThan",
    "LessThan", "StrictGreaterThan", "GreaterThan",
)  # fmt: skip
_NAMING: Final = {
    "tensor_values": "name",
    "sym_int_values": "name",
    "sym_bool_values": "name",
    "sym_float_values": "name",
    "range_constraints": "expr_str",
}
"""Tables of the graph whose keys are names or sizes."""
_IMPORTING_SPECS: Final = ("default_factory_module", "__enum__")
"""Containers in a call spec that make torch import a module by name."""

_ARITHMETIC: Final = (
    ast.Expression, ast.Call, ast.keyword, ast.Name, ast.Load, ast.Constant, ast.BinOp, ast.UnaryOp, ast.Compare,
    ast.BoolOp, ast.operator, ast.unaryop, ast.cmpop, ast.boolop,
)  # fmt: skip
"""What an expression may be made of: no attributes, subscripts, comprehensions or functions."""

Read = Callable[[str], bytes]


def danger(content: bytes) -> str | None:
    """Why reading the archive would execute code; None when it would not."""
    return next(_dangers(content), None)


def _dangers(content: bytes) -> Iterator[str]:
    # torch reads with its own zip reader and falls back to Python's for the format before 2.8: ask both.
    # Bytes that neither opens are harmless: loading them fails. One that opens must be readable to the end.
    with contextlib.suppress(RuntimeError):
        reader = torch._C.PyTorchFileReader(io.BytesIO(content))
        yield from _unless_damaged(_dangers_of_archive(list(reader.get_all_records()), reader.get_record))
    with contextlib.suppress(zipfile.BadZipFile):
        archive = zipfile.ZipFile(io.BytesIO(content))
        yield from _unless_damaged(_dangers_of_old_archive(archive.namelist(), archive.read))


def _unless_damaged(dangers: Iterator[str]) -> Iterator[str]:
    try:
        yield from dangers
    except Exception as error:  # an unreadable record: what it holds is not known
        yield f"a part of it cannot be read: {error}"


def _dangers_of_archive(names: list[str], read: Read) -> Iterator[str]:
    for name in names:
        if name.startswith("data/aotinductor/"):
            yield f"it holds a compiled library: {name}"
        elif name.endswith("_config.json") and name.startswith(("data/weights/", "data/constants/")):
            yield from _dangers_of_payload(name, read)
        elif name.startswith("data/") and name.endswith(".pt"):
            yield from _dangers_of_pickle(name, read(name))
        elif name.startswith("models/"):
            yield from _dangers_of_graph(name, read(name))


def _dangers_of_old_archive(names: list[str], read: Read) -> Iterator[str]:
    for name in names:
        if name == "serialized_exported_program.json":
            yield from _dangers_of_graph(name, read(name))
        elif name.startswith("serialized_"):
            yield from _dangers_of_pickle(name, read(name))


def _dangers_of_payload(name: str, read: Read) -> Iterator[str]:
    """Weights and constants that are pickled instead of plain bytes."""
    for target, payload in _json(name, read(name)).get("config", {}).items():
        path = str(payload.get("path_name", ""))
        is_object = name.startswith("data/constants/") and not path.startswith("tensor_")
        if is_object:
            yield f"constant {target} is an object, not a tensor"
        elif payload.get("use_pickle"):
            yield from _dangers_of_pickle(target, read(posixpath.join(posixpath.dirname(name), path)))


def _dangers_of_pickle(name: str, content: bytes) -> Iterator[str]:
    """A pickle is harmless when torch's restricted unpickler, which calls only known functions, reads it."""
    if not content:
        return
    try:
        torch.load(io.BytesIO(content), map_location="cpu", weights_only=True)
    except Exception as error:  # forbidden globals and damaged data alike
        text = str(error)
        found = re.search(r"GLOBAL ([\w.]+)", text)
        yield (f"{name} is a pickle that calls {found[1]}" if found else f"{name} is a pickle of more than tensors")


def _dangers_of_graph(name: str, content: bytes) -> Iterator[str]:
    for key, text in _strings(_json(name, content), ""):
        if key in _NAME_KEYS and text and not _NAME.fullmatch(text):
            yield f"{name} has a name that is code: {text[:40]!r}"
        elif key == "expr_str" and not _is_size(text):
            yield f"{name} has a size that is code: {text[:40]!r}"
        elif any(word in text for word in _IMPORTING_SPECS):
            yield f"{name} imports modules by name"


def _is_size(text: str) -> bool:
    """Whether an expression is arithmetic over symbols and known functions of sizes."""
    try:
        tree = ast.parse(text.strip(), mode="eval")
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    return all(map(_is_harmless, ast.walk(tree)))


def _is_harmless(node: ast.AST) -> bool:
    if isinstance(node, ast.Name):
        return node.id in _SIZE_FUNCTIONS or _SYMBOL.fullmatch(node.id) is not None
    if isinstance(node, ast.Constant):
        is_symbol = isinstance(node.value, str) and _SYMBOL.fullmatch(node.value) is not None
        return is_symbol or isinstance(node.value, bool | int | float)
    return isinstance(node, _ARITHMETIC)


def _json(name: str, content: bytes) -> Any:
    try:
        return json.loads(content)
    except (ValueError, UnicodeDecodeError):
        return {}  # torch cannot parse it either, and will say so


def _strings(value: Any, key: str) -> Iterator[tuple[str, str]]:
    """Every string of a JSON document with the key that it stands under; keys that name things included."""
    if isinstance(value, dict):
        for inner, item in value.items():
            if key in _NAMING:
                yield _NAMING[key], inner
            yield from _strings(item, inner)
    elif isinstance(value, list):
        for item in value:
            yield from _strings(item, key)
    elif isinstance(value, str):
        yield key, value

"""Whether reading an archive of torch.export would execute code from it.

`torch.export.load` (read at torch 2.13, torch/export/pt2_archive/_package.py) executes what a file says in
six places: pickled weights and constants, pickled sample inputs (tried as plain tensors first, then as
anything), script and opaque objects, compiled AOTInductor libraries, and text of the graph: names become source
code of a GraphModule, size expressions go through sympy's `eval`, and containers of a call spec name modules to import
(`specs`). An archive in which all of these are harmless needs no trust. Text that is not known as inert must be a word.
"""

from __future__ import annotations

import ast
import io
import json
import posixpath
import re
import zipfile
from collections.abc import Callable, Iterator
from typing import Any, Final

import torch

from mindgap.corpus.sources.pt2.specs import danger_of_spec
from mindgap.errors import CorruptModel
from mindgap.reading.files import refusing
from mindgap.reading.limits import TENSOR_BYTES
from mindgap.reading.zips import Archive

_NAME: Final = re.compile(r"[A-Za-z_][\w.]*")
_NAME_KEYS: Final = ("name", "as_name", "graph_name", "forward_arg_names", "field_names")
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
_SPEC_KEYS: Final = ("in_spec", "out_spec")
_INERT: Final = ("metadata", "as_string", "as_strings", "guards_code", "torch_version")
"""Text that stays text: where it enters generated code, it does so as a literal. Guards would run only in a module that
torch makes from the program, which nobody here asks for."""
_WORD: Final = re.compile(r"[\w.@:+-]*")
"""What any other text may be: it cannot become more than a name."""
_POWERS: Final = ("Pow", "PowByNatural")
_LARGEST_EXPONENT: Final = 64
_LONGEST_SIZE: Final = 4096

_ARITHMETIC: Final = (
    ast.Expression, ast.Call, ast.keyword, ast.Name, ast.Load, ast.Constant, ast.BinOp, ast.UnaryOp, ast.Compare,
    ast.BoolOp, ast.operator, ast.unaryop, ast.cmpop, ast.boolop,
)  # fmt: skip
"""What an expression may be made of: no attributes, subscripts, comprehensions or functions."""

Read = Callable[[str], bytes]


def danger(content: bytes, name: str = "the archive") -> str | None:
    """Why reading the archive would execute code; None when it would not. Raises CorruptModel when it is damaged."""
    with _opened(content, name) as archive, refusing(f"{name} is damaged", kind=CorruptModel):
        return next(_dangers(archive), None)


def rewritten(content: bytes, name: str = "the archive") -> bytes:
    """The same parts in an archive of our own: torch reads exactly what was checked, with whichever reader it uses."""
    written = io.BytesIO()
    with _opened(content, name) as archive, zipfile.ZipFile(written, "w", zipfile.ZIP_STORED) as new:
        for part in archive.names:
            new.writestr(part, archive.read(part, len(content)))
    return written.getvalue()


def _opened(content: bytes, name: str) -> Archive:
    archive = Archive(content, name, "an exported program", CorruptModel)
    stored = archive.stored_bytes()
    if stored is None or stored > len(content):  # torch compresses nothing
        raise CorruptModel(f"{name} is damaged", cause="its parts are compressed, or lie over each other")
    return archive


def _dangers(archive: Archive) -> Iterator[str]:
    # torch reads with its own zip reader, which looks below the first folder, and falls back to Python's for the
    # format before 2.8: what is harmless must be so for both.
    for folder in sorted({name.partition("/")[0] for name in archive.names if "/" in name}):
        names = [name.partition("/")[2] for name in archive.names if name.startswith(f"{folder}/")]
        yield from _dangers_of_archive(names, lambda name, f=folder: archive.read(f"{f}/{name}", TENSOR_BYTES))  # type: ignore[misc]
    yield from _dangers_of_old_archive(archive.names, lambda name: archive.read(name, TENSOR_BYTES))


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
        if key in _INERT:
            continue
        if key in _SPEC_KEYS:
            found = danger_of_spec(text)
            if found is not None:
                yield f"{name}: {found}"
        elif key == "expr_str":
            if not _is_size(text):
                yield f"{name} has a size that is code: {text[:40]!r}"
        elif text and not (_NAME if key in _NAME_KEYS else _WORD).fullmatch(text):
            yield f"{name} has a name that is code: {text[:40]!r}"


def _is_size(text: str) -> bool:
    """Whether an expression is arithmetic over symbols and known functions of sizes, and small enough to evaluate."""
    if len(text) > _LONGEST_SIZE:
        return False
    try:
        tree = ast.parse(text.strip(), mode="eval")
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    powers = [node for node in ast.walk(tree) if _is_power(node)]
    towers = [node for node in powers if any(map(_is_power, list(ast.walk(node))[1:])) or not _has_small_exponent(node)]
    return not towers and all(map(_is_harmless, ast.walk(tree)))


def _is_power(node: ast.AST) -> bool:
    if isinstance(node, ast.BinOp):
        return isinstance(node.op, ast.Pow | ast.LShift)
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in _POWERS


def _has_small_exponent(node: ast.AST) -> bool:
    """A power of a power of a large number takes longer to evaluate than anybody waits."""
    exponent = node.right if isinstance(node, ast.BinOp) else node.args[-1] if isinstance(node, ast.Call) else None
    if isinstance(exponent, ast.UnaryOp):
        exponent = exponent.operand
    if isinstance(exponent, ast.Call) and len(exponent.args) == 1:  # Integer(2)
        exponent = exponent.args[0]
    value = exponent.value if isinstance(exponent, ast.Constant) else None
    return isinstance(value, int | float) and abs(value) <= _LARGEST_EXPONENT


def _is_harmless(node: ast.AST) -> bool:
    if isinstance(node, ast.Name):
        return node.id in _SIZE_FUNCTIONS or _SYMBOL.fullmatch(node.id) is not None
    if isinstance(node, ast.Constant):
        is_symbol = isinstance(node.value, str) and _SYMBOL.fullmatch(node.value) is not None
        return is_symbol or isinstance(node.value, bool | int | float)
    return isinstance(node, _ARITHMETIC)


def _json(name: str, content: bytes) -> Any:
    """As torch parses it; what it cannot parse is not known to be harmless."""
    with refusing("the archive is damaged", name, CorruptModel):
        return json.loads(content.decode())


def _strings(value: Any, key: str) -> Iterator[tuple[str, str]]:
    """Every string of a JSON document with the key that it stands under; keys that name things included."""
    if key in _INERT:
        return
    if isinstance(value, dict):
        for inner, item in value.items():
            if key in _NAMING:
                yield _NAMING[key], inner
                yield from _strings(item, "")
            else:
                yield from _strings(item, inner)
    elif isinstance(value, list):
        for item in value:
            yield from _strings(item, key)
    elif isinstance(value, str):
        yield key, value

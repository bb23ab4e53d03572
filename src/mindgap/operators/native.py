"""What torch's own list of operators says: `native_functions.yaml`, which every wheel of torch holds.

An entry names the backends that have a kernel of its own. One with `structured_delegate` has the kernels of the `out`
overload that it names. Composite kernels are written in terms of other operators and run wherever those run.
"""

from __future__ import annotations

import ast
import functools
import importlib.util
import re
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Final

from mindgap.errors import CorruptFile, UsageError
from mindgap.reading.files import read_file, refusing
from mindgap.reading.yaml import parse_yaml

FILE: Final = "packaged/ATen/native/native_functions.yaml"
YAML_BYTES: Final = 16 << 20
"""The list of torch 2.13.0 has 0.6 MB."""
_IMPLICIT: Final = "CompositeImplicitAutograd"
_ALIASES: Final = {"float": "float32", "half": "float16", "double": "float64", "long": "int64", "int": "int32"}
_GENERATED: Final = ("CPU", "CUDA")
"""Kernels that torch generates from one inner loop, which is all that such an entry names."""
_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*)?")
_OF_A_LIBRARY: Final = re.compile(r"cudnn|miopen|mkldnn|fbgemm|^mps_|^cuda$|^cpu$|overrideable")
"""Operators that are one backend's own on purpose: no other one can be expected to have them."""


@dataclass(frozen=True, slots=True)
class NativeOperator:
    """One overload of torch's list."""

    op: str
    """`aten.add.Tensor`."""
    kernels: frozenset[str]
    """Backends with a kernel of its own, its delegate's included."""
    composite: str
    """`explicit`: torch registers one kernel for all backends. `implicit`: it is other operators. Else empty."""
    delegate: str = ""
    """The `out` overload that does the work, where there is one."""

    @property
    def is_public(self) -> bool:
        """Whether models may call it: no private name, no gradient, no `out` overload, no vendor's own."""
        _, name, overload = self.op.split(".")
        out = overload == "out" or overload.endswith("_out")
        return not (name.startswith("_") or "backward" in name or out or _OF_A_LIBRARY.search(name))


@functools.cache
def native_operators() -> Mapping[str, NativeOperator]:
    """Every operator of the installed torch, from its list."""
    found = importlib.util.find_spec("torchgen")
    folders = (found.submodule_search_locations if found is not None else None) or []
    paths = [Path(folder) / FILE for folder in folders if (Path(folder) / FILE).is_file()]
    if not paths:
        raise UsageError("the installed torch does not hold its list of operators", cause=f"torchgen/{FILE} is missing")
    return parse_native(read_file(paths[0], YAML_BYTES), str(paths[0].name))


def parse_native(content: bytes, name: str) -> dict[str, NativeOperator]:
    """The operators of a list in torch's format."""
    with refusing(f"{name} is not a list of operators"):
        entries = parse_yaml(content, name)
        if not isinstance(entries, list):
            raise ValueError("it is not a list")
        raw = {operator_name(entry): entry for entry in entries}
    dispatch = {op: _keys(entry, name) for op, entry in raw.items()}
    found = {}
    for op, entry in raw.items():
        delegate = operator_name(entry["structured_delegate"]) if "structured_delegate" in entry else ""
        keys = dispatch[op] | dispatch.get(delegate, frozenset())
        kernels = frozenset(key for key in keys if not key.startswith("Composite"))
        found[op] = NativeOperator(op, kernels, _composite(dispatch[op], bool(delegate)), delegate)
    return found


def operator_name(entry: Any) -> str:
    """`aten.add.Tensor` of an entry: a name, a schema, or a map with one of them under `func`."""
    text = entry.get("func") if isinstance(entry, dict) else entry
    name = str(text).partition("(")[0].strip().removeprefix("aten::")
    if not isinstance(text, str) or not _NAME.fullmatch(name):
        raise CorruptFile(f"{str(text)[:60]!r} is not the name of an operator")
    return f"aten.{name}" if "." in name else f"aten.{name}.default"


def _keys(entry: Any, name: str) -> frozenset[str]:
    table = entry.get("dispatch") or {}
    if not isinstance(table, dict):
        raise CorruptFile(f"{name} is not a list of operators", cause="a dispatch table is not a map")
    generated = _GENERATED if "ufunc_inner_loop" in entry else ()
    return frozenset((*generated, *(key.strip() for keys in table for key in keys.split(","))))


def _composite(keys: frozenset[str], delegated: bool) -> str:
    if _IMPLICIT in keys or (not keys and not delegated):
        return "implicit"
    return "explicit" if any(key.startswith("Composite") for key in keys) else ""


def metal_dtypes() -> tuple[str, ...]:
    """Element types that torch has a type of Metal for, from the text of its own code generator; complex numbers are
    not told there. Empty where this torch has no such table."""
    found = importlib.util.find_spec("torch")
    for folder in (found.submodule_search_locations if found is not None else None) or ():
        path = Path(folder) / "_inductor" / "codegen" / "mps.py"
        for node in ast.walk(ast.parse(path.read_text())) if path.is_file() else ():
            if not isinstance(node, ast.Assign) or not isinstance(node.value, ast.Dict):
                continue
            if any(getattr(target, "id", "") == "DTYPE_TO_METAL" for target in node.targets):
                names = [key.attr for key in node.value.keys if isinstance(key, ast.Attribute)]
                return tuple(_ALIASES.get(name, name) for name in names)
    return ()


def installed_version(package: str) -> str:
    """The version of a package, without importing it; empty where it is not installed."""
    try:
        return version(package)
    except PackageNotFoundError:
        return ""

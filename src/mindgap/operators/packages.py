"""What a vendor's package registers, read from a wheel or a folder without importing or executing any of it."""

from __future__ import annotations

import ast
import importlib.util
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

from mindgap.errors import CorruptFile, UsageError
from mindgap.operators.native import YAML_BYTES, NativeOperator, installed_version, operator_name, parse_native
from mindgap.reading.files import read_file, refusing
from mindgap.reading.yaml import parse_yaml
from mindgap.reading.zips import Archive

LIBRARY_BYTES: Final = 512 << 20
_LIST: Final = re.compile(r"(^|/)\w*native_functions\w*\.yaml$")
"""Lists of plug-ins in the format of torch's own generator of kernels."""
_PORTABLE: Final = re.compile(r"(^|/)kernels/portable/functions\.yaml$")
"""ExecuTorch's kernels for every device."""
_FRONTEND: Final = re.compile(r"(^|/)libopenvino_pytorch_frontend\.so[.\d]*$")
_TVM: Final = re.compile(r"(^|/)relax/frontend/torch/exported_program_translator\.py$")
_IREE: Final = re.compile(r"(^|/)libIREECompiler\.so$")
_DIALECT: Final = re.compile(rb"torch\.(aten\.[A-Za-z_]\w{0,80}(?:\.[A-Za-z_]\w{0,40})?)(?=\x00)")
_OVERLOAD: Final = re.compile(rb"\x00(aten\.[a-z_][A-Za-z0-9_]{0,80}\.[A-Za-z_][A-Za-z0-9_]{0,40})(?=\x00)")
_SECTIONS: Final = ("supported", "autograd", "symint", "quant")
"""Where a plug-in lists operators of ATen; what it adds itself stands under `custom`."""


@dataclass(frozen=True, slots=True)
class Registered:
    """What one package registers."""

    backend: str
    """`NPU`, as the package calls it; `openvino` for a converter."""
    source: str
    """Package, version and the files that were read."""
    operators: frozenset[str]
    custom: int = 0
    """Operators that only this package has."""
    native: Mapping[str, NativeOperator] = field(default_factory=dict)
    """The whole list, of a package that is torch."""
    note: str = ""


def read_package(path: Path) -> Registered:
    """What a wheel, or the folder of an unpacked package, registers; raises CorruptFile when it lists nothing."""
    try:
        return _read(path)
    except CorruptFile as error:  # several packages may be given
        error.where = f"{path}: {error.where}" if error.where not in (None, path.name) else str(path)
        raise


def _read(path: Path) -> Registered:
    if path.is_dir():
        found = {file.relative_to(path).as_posix(): file for file in sorted(path.rglob("*"))}
        files = {name: file for name, file in found.items() if _is_list(name)}
        return _registered(path.name, files, lambda name, most: read_file(files[name], most))
    if not path.exists():
        raise UsageError(f"there is no package {path}", hint="name a wheel or a folder with --package")
    with Archive(path, path.name, "a wheel") as archive:
        return _registered(path.name.removesuffix(".whl"), archive.names, archive.read)


def installed_package(name: str, elsewhere: Path | None = None) -> Registered | None:
    """The same for an installed package, by its import name; None where it is installed neither here nor `elsewhere`,
    in the environment of that interpreter."""
    top, _, inner = name.partition(".")
    found = importlib.util.find_spec(top)  # of a top-level name: nothing is imported
    folders = list((found.submodule_search_locations if found is not None else None) or [])
    if elsewhere is not None:
        folders += [str(path) for path in elsewhere.parents[1].glob(f"lib/python3*/site-packages/{top}")]
    for folder in map(Path, folders):
        if (folder / inner).is_dir():
            registered = read_package(folder / inner)
            version = installed_version(top) or _version_beside(folder)
            return replace(registered, source=f"{top} {version}".strip())
    return None


def _version_beside(folder: Path) -> str:
    """The version of a package in another environment, by the name of the folder that pip wrote beside it."""
    pattern = f"*{folder.name.replace('-', '_')}*.dist-info"
    names = sorted(path.name for path in folder.parent.glob(pattern))
    return names[0].removesuffix(".dist-info").partition("-")[2] if names else ""


def _is_list(name: str) -> bool:
    return any(pattern.search(name) for pattern in (_LIST, _PORTABLE, _FRONTEND, _TVM, _IREE))


def _registered(package: str, names: Iterable[str], read: Callable[[str, int], bytes]) -> Registered:
    wanted = [name for name in names if _is_list(name)]
    short = "-".join(package.split("-")[:2])
    library, portable, tvm, iree = (
        next((name for name in wanted if pattern.search(name)), None) for pattern in (_FRONTEND, _PORTABLE, _TVM, _IREE)
    )
    if library is not None:
        named = frozenset(text.decode() for text in _OVERLOAD.findall(read(library, LIBRARY_BYTES)))
        found = Registered("openvino", f"{short}: names in {Path(library).name}", named)
    elif portable is not None:
        found = _portable(short, portable, parse_yaml(read(portable, YAML_BYTES), portable))
    elif tvm is not None:
        found = Registered("tvm", f"{short}: table of its frontend", _converters(read(tvm, YAML_BYTES), tvm))
    elif iree is not None:
        named = frozenset(operator_name(text.decode()[5:]) for text in _DIALECT.findall(read(iree, LIBRARY_BYTES)))
        found = Registered("iree", f"{short}: names in {Path(iree).name}", named, note=_ONLY_NAMES)
    else:
        found = _listed(short, {name: read(name, YAML_BYTES) for name in wanted})
    if not found.operators:
        raise CorruptFile(
            f"{package} lists no operators",
            cause="it holds no native_functions.yaml and no converter that mindgap can read",
            hint="packages that are known: torch, torch_npu, openvino, executorch, apache-tvm, iree-base-compiler",
        )
    return found


_ONLY_NAMES: Final = "operators of its dialect: more than it can lower"


def _listed(package: str, contents: Mapping[str, bytes]) -> Registered:
    """Lists of torch's generator: a list of entries is torch's own, maps with sections are a plug-in's."""
    documents = {name: parse_yaml(content, name) for name, content in contents.items()}
    own = next((name for name, document in documents.items() if _is_torch(document)), None)
    if own is None:
        return _plugin(package, documents)
    native = parse_native(contents[own], own)
    return Registered("torch", f"{package}: {Path(own).name}", frozenset(native), native=native)


def _is_torch(document: object) -> bool:
    entries = document if isinstance(document, list) else ()
    return bool(entries) and all(isinstance(entry, dict) and "func" in entry for entry in entries)


def _converters(source: bytes, name: str) -> frozenset[str]:
    """The keys of the table that TVM's frontend makes in `create_convert_map`, from its text."""
    with refusing(f"{name} is not TVM's frontend", name):
        functions = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.FunctionDef)]
        tables = [f for f in functions if f.name == "create_convert_map"]
        keys = [key for f in tables for node in ast.walk(f) if isinstance(node, ast.Dict) for key in node.keys]
    texts = [key.value for key in keys if isinstance(key, ast.Constant) and isinstance(key.value, str)]
    return frozenset(operator_name(text) for text in texts)


def _plugin(package: str, documents: Mapping[str, object]) -> Registered:
    """A plug-in of torch lists what it registers by section."""
    backend, operators, custom = "", set[str](), set[str]()
    for name, document in documents.items():
        with refusing(f"{name} is not a list of operators", name):
            if not isinstance(document, dict):
                raise ValueError("it is not a map with the sections of a plug-in")
            backend = backend or str(document.get("backend", ""))
            for section in _SECTIONS:
                operators |= {operator_name(entry) for entry in document.get(section) or ()}
            custom |= {operator_name(entry) for entry in document.get("custom") or ()}
    files = ", ".join(Path(name).name for name in documents)
    return Registered(backend or package, f"{package}: {files}", frozenset(operators), len(custom))


def _portable(package: str, name: str, entries: object) -> Registered:
    """ExecuTorch lists its kernels as `out` overloads: `op` for one of ATen, `func` with a schema for any other."""
    with refusing(f"{name} is not a list of operators", name):
        if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
            raise ValueError("it is not a list of entries")
        told = [str(entry.get("op") or entry.get("func") or "") for entry in entries]
        foreign = [text for text in told if "::" in text.partition("(")[0].removeprefix("aten::")]
        operators = frozenset(operator_name(text) for text in told if text not in foreign)
    return Registered("executorch", f"{package}: portable kernels", operators, len(foreign))

"""What a vendor's package registers, read from a wheel or a folder without importing or executing any of it."""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from mindgap.errors import CorruptFile, UsageError
from mindgap.operators.native import YAML_BYTES, installed_version, operator_name
from mindgap.reading.files import read_file, refusing
from mindgap.reading.yaml import parse_yaml
from mindgap.reading.zips import Archive

LIBRARY_BYTES: Final = 512 << 20
_LIST: Final = re.compile(r"(^|/)\w*native_functions\w*\.yaml$")
"""Lists of plug-ins in the format of torch's own generator of kernels."""
_PORTABLE: Final = re.compile(r"(^|/)kernels/portable/functions\.yaml$")
"""ExecuTorch's kernels for every device."""
_FRONTEND: Final = re.compile(r"(^|/)libopenvino_pytorch_frontend\.so[.\d]*$")
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


def read_package(path: Path) -> Registered:
    """What a wheel, or the folder of an unpacked package, registers; raises CorruptFile when it lists nothing."""
    if path.is_dir():
        found = {file.relative_to(path).as_posix(): file for file in sorted(path.rglob("*"))}
        files = {name: file for name, file in found.items() if _is_list(name)}
        return _registered(path.name, files, lambda name, most: read_file(files[name], most))
    if not path.exists():
        raise UsageError(f"there is no package {path}", hint="name a wheel or a folder with --package")
    with Archive(path, path.name, "a wheel") as archive:
        return _registered(path.name.removesuffix(".whl"), archive.names, archive.read)


def installed_package(name: str) -> Registered | None:
    """The same for an installed package, by its import name; None where it is not installed."""
    found = importlib.util.find_spec(name)  # of a top-level name: nothing is imported
    folders = (found.submodule_search_locations if found is not None else None) or []
    for folder in folders:
        registered = read_package(Path(folder))
        return Registered(
            registered.backend, f"{name} {installed_version(name)}", registered.operators, registered.custom
        )
    return None


def _is_list(name: str) -> bool:
    return any(pattern.search(name) for pattern in (_LIST, _PORTABLE, _FRONTEND))


def _registered(package: str, names: Iterable[str], read: Callable[[str, int], bytes]) -> Registered:
    wanted = [name for name in names if _is_list(name)]
    short = "-".join(package.split("-")[:2])
    library = next((name for name in wanted if _FRONTEND.search(name)), None)
    portable = next((name for name in wanted if _PORTABLE.search(name)), None)
    if library is not None:
        named = frozenset(text.decode() for text in _OVERLOAD.findall(read(library, LIBRARY_BYTES)))
        found = Registered("openvino", f"{short}: names in {Path(library).name}", named)
    elif portable is not None:
        found = _portable(short, portable, parse_yaml(read(portable, YAML_BYTES), portable))
    else:
        found = _plugin(short, {name: parse_yaml(read(name, YAML_BYTES), name) for name in wanted})
    if not found.operators:
        raise CorruptFile(
            f"{package} lists no operators",
            cause="it holds no native_functions.yaml and no converter that mindgap can read",
            hint="packages that are known: torch_npu, openvino, executorch",
        )
    return found


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

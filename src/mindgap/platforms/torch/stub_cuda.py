"""Empty CUDA libraries, so that a CUDA build of torch can be imported where none of NVIDIA's packages is.

Each library that torch links against and that is not there becomes one that defines every CUDA symbol torch asks for,
in the versions that it asks for. A call returns 100, CUDA's "no device": torch then says that CUDA is not available.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

from mindgap.errors import UsageError

_LIBRARY: Final = re.compile(r"lib(cu|nv|nccl)[A-Za-z0-9_]*\.so[.0-9]*")
_SYMBOL: Final = re.compile(r"(__cuda|cublas|cuda|cudnn|cufft|cupti|curand|cusolver|cusparse|nccl|nv|cu[A-Z])\w*")
_TOOLS: Final = ("nm", "objdump", "cc")


def make(root: Path) -> None:
    """Add what is missing to the torch of the environment at `root`; a build without CUDA misses nothing."""
    folder = next(root.glob("lib/python3.*/site-packages/torch/lib"))
    objects = sorted(folder.glob("*.so*"))
    missing = missing_libraries(objects)
    if not missing:
        return
    absent = [tool for tool in _TOOLS if shutil.which(tool) is None]
    if absent:
        raise UsageError(
            "cannot make stand-ins for the CUDA libraries that this build of torch links against",
            cause=f"{', '.join(absent)} not found",
            hint="apt-get install gcc binutils",
        )
    symbols = missing_symbols(objects)
    with tempfile.TemporaryDirectory(prefix="mindgap-stubs-") as scratch:
        source, compiled = Path(scratch) / "stub.c", Path(scratch) / "stub.o"
        source.write_text("\n".join(map(_definition, symbols)) + "\n")
        _cc("-c", "-fPIC", "-O1", source, "-o", compiled)
        for name, versions in missing.items():
            _link(compiled, folder / name, versions)


def missing_libraries(objects: Sequence[Path]) -> dict[str, tuple[str, ...]]:
    """CUDA libraries that these objects need and that do not lie beside them, each with the versions of its symbols."""
    there = {path.name for path in objects}
    wanted: dict[str, set[str]] = {}
    for path in objects:
        text = _said("objdump", "-p", path)
        for name in re.findall(r"^\s+NEEDED\s+(\S+)", text, re.MULTILINE):
            if _LIBRARY.fullmatch(name) and name not in there:
                wanted.setdefault(name, set())
        for name, block in re.findall(r"required from (\S+):\n((?:\s+0x.*\n)*)", text):
            if name in wanted:
                wanted[name] |= {line.split()[-1] for line in block.splitlines()}
    return {name: tuple(sorted(versions)) for name, versions in sorted(wanted.items())}


def missing_symbols(objects: Sequence[Path]) -> list[str]:
    """CUDA symbols that these objects use and none of them defines."""
    undefined, defined = set[str](), set[str]()
    for path in objects:
        for line in _said("nm", "-D", path).splitlines():
            *_, kind, name = ["", "", *line.split()]
            (undefined if kind in ("U", "w") else defined).add(name.partition("@")[0])
    return sorted(name for name in undefined - defined if _SYMBOL.fullmatch(name))


def _definition(symbol: str) -> str:
    """What a stub does: registering kernels succeeds without effect, everything else finds no device."""
    if symbol == "__cudaRegisterFatBinary":
        return f"void *{symbol}() {{ static void *handle; return &handle; }}"
    if symbol.startswith("__cuda"):
        return f"void {symbol}() {{}}"
    return f"int {symbol}() {{ return 100; }}"


def _link(compiled: Path, target: Path, versions: Iterable[str]) -> None:
    first, *others = [*versions, ""]
    options = []
    if first:
        script = compiled.with_suffix(".map")
        rest = " ".join(f"{version} {{}};" for version in others if version)
        script.write_text(f"{first} {{ global: *; }}; {rest}\n")
        options.append(f"-Wl,--version-script={script}")
    _cc("-shared", compiled, f"-Wl,-soname,{target.name}", *options, "-o", target)


def _cc(*arguments: object) -> None:
    command = ["cc", "-w", *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL)
    if done.returncode:
        raise UsageError(
            "cannot make stand-ins for the CUDA libraries that this build of torch links against",
            cause=done.stderr.strip()[-300:],
        )


def _said(*command: object) -> str:
    return subprocess.run([*map(str, command)], capture_output=True, text=True, stdin=subprocess.DEVNULL).stdout

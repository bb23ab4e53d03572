"""What installed packages say about themselves when they are imported: each in a process of its own, which may die."""

from __future__ import annotations

import functools
import json
import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from mindgap.errors import CorruptFile, UsageError
from mindgap.operators.native import operator_name
from mindgap.platforms.environments import MARKER, directory

TIMEOUT_S: Final = 300.0
ANSWER_BYTES: Final = 64 << 20
_TYPES: Final = {
    "float": "float32", "double": "float64", "float16": "float16", "bfloat16": "bfloat16", "bool": "bool",
    "complex64": "complex64", **{name: name for name in ("int8", "int16", "int32", "int64", "uint8")},
}  # fmt: skip
"""What ONNX calls element types."""
_DISPATCHED: Final = """
import importlib, json, sys
import torch
key, *packages = sys.argv[1:]
for package in packages:
    importlib.import_module(package)
print(json.dumps([torch.__version__, torch._C._dispatch_get_registrations_for_dispatch_key(key)]))
"""
_KERNELS: Final = """
import json
import onnxruntime
from onnxruntime.capi import onnxruntime_pybind11_state as state
rows = [[k.provider, k.domain, k.op_name, {n: list(t) for n, t in k.type_constraints.items()}]
        for k in state.get_all_opkernel_def()]
print(json.dumps([onnxruntime.__version__, rows]))
"""


@dataclass(frozen=True, slots=True)
class Kernel:
    """One kernel that a provider of ONNX Runtime registers."""

    provider: str
    op: str
    """`Softmax`, with its domain where that is not ONNX's own: `com.microsoft.Gelu`."""
    dtypes: frozenset[str]
    """Of its main type; empty where it has none."""


def python_of(platform: str) -> Path | None:
    """The interpreter of a platform's own environment; None where none was installed."""
    home = directory() / platform.replace(":", "-").replace("@", "-")
    try:
        root = str(json.loads((home / MARKER).read_bytes())["root"])
    except (OSError, ValueError, TypeError, KeyError):
        return None
    found = home / root / "bin" / "python"
    return found if found.exists() else None


@functools.cache
def dispatched(python: Path, key: str, packages: Sequence[str] = ()) -> tuple[str, frozenset[str]]:
    """The version of torch, and what is registered in its dispatcher for a key once these packages are imported."""
    version, names = _answer(python, _DISPATCHED, key, *packages)
    found = (str(name).removeprefix("aten::") for name in names if str(name).startswith("aten::"))
    return str(version), frozenset(operator_name(name) for name in found)


@functools.cache
def onnx_kernels() -> tuple[str, tuple[Kernel, ...]]:
    """The version of the installed ONNX Runtime and all kernels that its providers register."""
    version, rows = _answer(Path(sys.executable), _KERNELS)
    return str(version), tuple(_kernel(*row) for row in rows)


def _kernel(provider: str, domain: str, op: str, types: dict[str, list[str]]) -> Kernel:
    main = types.get("T") or types.get("T1") or next(iter(types.values()), [])
    inside = (text.partition("(")[2].rstrip(")") for text in main if text.startswith("tensor("))
    return Kernel(provider, f"{domain}.{op}" if domain else op, frozenset(_TYPES[t] for t in inside if t in _TYPES))


def _answer(python: Path, script: str, *arguments: str) -> Any:
    """The last line that a script prints, as JSON; raises UsageError with its last words where it prints none."""
    kept = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    try:
        done = subprocess.run(
            [str(python), "-c", script, *arguments], capture_output=True, env=kept, timeout=TIMEOUT_S, check=False,
            stdin=subprocess.DEVNULL,
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired) as error:
        raise UsageError("an installed package does not answer", cause=str(error)) from error
    lines = done.stdout.decode(errors="replace").strip().splitlines()
    if done.returncode or not lines or len(done.stdout) > ANSWER_BYTES:
        last = (done.stderr.decode(errors="replace").strip().splitlines() or [f"exit code {done.returncode}"])[-1]
        raise UsageError("an installed package cannot be asked what it registers", cause=last[:300])
    try:
        return json.loads(lines[-1])
    except ValueError as error:
        raise CorruptFile("an installed package answers in no known form", cause=str(error)) from error

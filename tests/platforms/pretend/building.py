"""Compiling the device."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import torch
from torch.utils.cpp_extension import include_paths, library_paths

LIBRARY = "MINDGAP_PRETEND_LIBRARY"
"""The environment variable that tells a worker where the device's library is."""


def build(folder: Path) -> Path:
    """The device as a library, from its one source file."""
    library = folder / "pretend.so"
    command = [
        os.environ.get("CXX", "g++"), "-std=c++20", "-O0", "-shared", "-fPIC", "-w",
        f"-D_GLIBCXX_USE_CXX11_ABI={int(torch._C._GLIBCXX_USE_CXX11_ABI)}",
        *[f"-I{path}" for path in include_paths()],
        str(Path(__file__).with_name("device.cpp")), "-o", str(library),
        *[flag for path in library_paths() for flag in (f"-L{path}", f"-Wl,-rpath,{path}")], "-ltorch_cpu", "-lc10",
    ]  # fmt: skip
    subprocess.run(command, check=True)
    return library

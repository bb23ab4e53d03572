"""Stand-ins for CUDA libraries, made for a small library that links against some as torch's CUDA build does."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
from pathlib import Path

import pytest

from mindgap.errors import UsageError
from mindgap.platforms.torch import stub_cuda

pytestmark = pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler")

USER = """
int cudaGetDeviceCount(int *); int cublasCreate_v2(void **); void **__cudaRegisterFatBinary(void *);
int devices(void) { int n; return cudaGetDeviceCount(&n); }
int handle(void) { return cublasCreate_v2(0); }
int registered(void) { return __cudaRegisterFatBinary(0) != 0; }
"""


def compile_library(target: Path, text: str, *options: str) -> None:
    source = target.with_suffix(".c")
    source.write_text(text)
    subprocess.run(["cc", "-w", "-shared", "-fPIC", str(source), "-o", str(target), *options], check=True)
    source.unlink()


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """An environment whose torch needs libcudart.so.12, with versioned symbols, and libcublas.so.12; both are gone."""
    folder = tmp_path / "lib" / "python3.11" / "site-packages" / "torch" / "lib"
    folder.mkdir(parents=True)
    script = tmp_path / "map"
    script.write_text("libcudart.so.12 { global: *; };\n")
    real = "int cudaGetDeviceCount() { return 1; } void *__cudaRegisterFatBinary() { return 0; }"
    compile_library(folder / "libcudart.so.12", real, "-Wl,-soname,libcudart.so.12", f"-Wl,--version-script={script}")
    compile_library(folder / "libcublas.so.12", "int cublasCreate_v2() { return 1; }", "-Wl,-soname,libcublas.so.12")
    there = [str(folder / name) for name in ("libcudart.so.12", "libcublas.so.12")]
    compile_library(folder / "libtorch_cuda.so", USER, *there, "-Wl,-rpath,$ORIGIN")
    for name in there:
        Path(name).unlink()
    return tmp_path


def user(root: Path) -> ctypes.CDLL:
    return ctypes.CDLL(str(next(root.glob("lib/*/site-packages/torch/lib/libtorch_cuda.so"))))


def test_a_library_that_could_not_be_loaded_finds_no_device(root: Path) -> None:
    with pytest.raises(OSError, match=r"libcu\w+\.so\.12"):
        user(root)
    stub_cuda.make(root)
    library = user(root)
    assert (library.devices(), library.handle(), library.registered()) == (100, 100, 1)


def test_versions_of_symbols_are_those_that_are_asked_for(root: Path) -> None:
    objects = list(root.glob("lib/*/site-packages/torch/lib/*.so"))
    assert stub_cuda.missing_libraries(objects) == {"libcublas.so.12": (), "libcudart.so.12": ("libcudart.so.12",)}
    assert stub_cuda.missing_symbols(objects) == ["__cudaRegisterFatBinary", "cublasCreate_v2", "cudaGetDeviceCount"]


def test_a_build_that_misses_nothing_is_left_alone(root: Path) -> None:
    stub_cuda.make(root)
    before = {path: path.stat().st_mtime_ns for path in root.rglob("*")}
    stub_cuda.make(root)
    assert {path: path.stat().st_mtime_ns for path in root.rglob("*")} == before


def test_a_missing_compiler_is_told(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stub_cuda, "_TOOLS", ("nm", "objdump", "no-such-compiler"))
    with pytest.raises(UsageError) as caught:
        stub_cuda.make(root)
    assert "no-such-compiler not found" in str(caught.value) and "apt-get install gcc" in str(caught.value)

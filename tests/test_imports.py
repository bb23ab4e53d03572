"""The data flows one way through the folders: each imports what pyproject.toml allows, and workers load little."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import mindgap
from tests.loaded import loaded_after_a_program

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(mindgap.__file__).parent
PROJECT = Path(__file__).resolve().parents[1]
ALLOWED: dict[str, list[str]] = tomllib.loads((PROJECT / "pyproject.toml").read_text())["tool"]["mindgap"]["imports"]


def imports_of(path: Path) -> set[str]:
    """The parts of mindgap that a file imports, wherever in the file."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        names = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            names = [node.module]
            if node.module == "mindgap":
                names = [f"mindgap.{alias.name}" for alias in node.names]
        found |= {name.split(".")[1] for name in names if name.startswith("mindgap.")}
    return found - {"errors", "__version__"}


@pytest.mark.parametrize("folder", sorted(path.name for path in ROOT.iterdir() if (path / "__init__.py").exists()))
def test_a_folder_imports_what_it_may_and_needs_all_of_that(folder: str) -> None:
    found = {path: imports_of(path) - {folder} for path in (ROOT / folder).rglob("*.py")}
    allowed = set(ALLOWED[folder])
    wrong = {str(path.relative_to(ROOT)): names - allowed for path, names in found.items() if names - allowed}
    assert not wrong
    assert not allowed - set().union(*found.values()), "allowed, but nobody imports it"


def test_what_is_allowed_has_no_circle() -> None:
    order = list(ALLOWED)
    assert all(order.index(other) < order.index(folder) for folder, others in ALLOWED.items() for other in others)


def test_nothing_lies_beside_the_folders() -> None:
    assert {path.name for path in ROOT.glob("*.py")} == {"__init__.py", "__main__.py", "errors.py"}


def test_a_worker_needs_only_torch_numpy_msgpack_and_msgspec() -> None:
    """Modules that a worker may import must not import anything else at their top level."""
    allowed = {"torch", "numpy", "msgpack", "msgspec", "mindgap", "__future__", *sys.stdlib_module_names}
    for part in ("records", "reading", "program", "execution", "platforms", "verdicts", "corpus"):
        for path in (ROOT / part).rglob("*.py"):
            for node in ast.parse(path.read_text()).body:
                names = []
                if isinstance(node, ast.Import):
                    names = [alias.name for alias in node.names]
                elif isinstance(node, ast.ImportFrom) and node.module:
                    names = [node.module]
                assert {name.split(".")[0] for name in names} <= allowed, path


@pytest.mark.parametrize("platform", ["eager@scalar", "inductor", "onnxruntime", "openvino"])
def test_a_worker_that_ran_a_program_has_loaded_these_folders_and_nothing_else(platform: str) -> None:
    found = loaded_after_a_program(platform)
    if found.get("corpus") == ["compiled_parts"]:  # of the environment, not of the worker: corpus/import_hook.py
        del found["corpus"]
    assert found.keys() == {"errors", "records", "reading", "program", "execution", "platforms"}, found


def test_importing_the_package_is_cheap() -> None:
    code = "import sys, mindgap; print([name for name in sys.modules if name.partition('.')[0] in ('torch', 'numpy')])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"

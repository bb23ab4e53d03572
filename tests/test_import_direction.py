"""The data flows one way through the folders: no stage imports a later one."""

from __future__ import annotations

import ast
from pathlib import Path

import mindgap

ROOT = Path(mindgap.__file__).parent

FLOW = [
    "records",
    "program",
    "corpus",
    "variants",
    "platforms",
    "verdicts",
    "execution",
    "pipeline",
    "tracing",
    "reduction",
    "campaign",
    "explain",
    "building",
    "replaying",
    "bench",
    "report",
    "cli",
]
"""Each may import what stands before it; `errors` may be imported by all."""
DRIVERS = {"corpus.building": "building", "corpus.replaying": "replaying"}
"""Modules that put worker processes to use from inside an early folder: a stage of their own."""


def imports_of(path: Path) -> set[str]:
    """The parts of mindgap that a file imports."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        names = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            names = [node.module]
            if node.module == "mindgap":
                names = [f"mindgap.{alias.name}" for alias in node.names]
        found |= {part_named(name.removeprefix("mindgap.")) for name in names if name.startswith("mindgap.")}
    return found


def part_named(module: str) -> str:
    return DRIVERS.get(module, module.split(".")[0])


def part_of(path: Path) -> str:
    return part_named(".".join(path.relative_to(ROOT).with_suffix("").parts))


def test_no_stage_imports_a_later_one() -> None:
    wrong = []
    for path in ROOT.rglob("*.py"):
        part = part_of(path)
        if part not in FLOW:
            continue
        later = set(FLOW[FLOW.index(part) + 1 :])
        wrong += [f"{path.relative_to(ROOT)} imports {other}" for other in imports_of(path) & later]
    assert not wrong


def test_records_import_nothing_but_errors() -> None:
    for path in (ROOT / "records").rglob("*.py"):
        assert imports_of(path) <= {"records", "errors"}, path


def test_every_part_is_in_the_flow() -> None:
    parts = {part_of(path) for path in ROOT.rglob("*.py")}
    assert parts - {"__init__", "errors"} == set(FLOW)


def test_a_worker_needs_only_torch_numpy_and_msgpack() -> None:
    """Modules that a worker imports must not import anything else at their top level."""
    allowed = {"torch", "numpy", "msgpack", "mindgap", "__future__"}
    import sys

    for part in ("records", "program", "platforms", "verdicts", "execution", "corpus"):
        for path in (ROOT / part).rglob("*.py"):
            for node in ast.parse(path.read_text()).body:
                names = []
                if isinstance(node, ast.Import):
                    names = [alias.name for alias in node.names]
                elif isinstance(node, ast.ImportFrom) and node.module:
                    names = [node.module]
                tops = {name.split(".")[0] for name in names}
                assert tops <= allowed | set(sys.stdlib_module_names), path

"""Every command has help that teaches, and the documents name every command."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import typer

from mindgap.cli import make_app
from tests.cli.conftest import Run

ROOT = Path(__file__).resolve().parents[2]


def commands() -> list[str]:
    group = typer.main.get_command(make_app())
    found = []
    for name, command in group.commands.items():  # type: ignore[attr-defined]
        inner = getattr(command, "commands", None)
        found += [f"{name} {child}" for child in inner] if inner else [name]
    return found


@pytest.mark.parametrize("command", commands())
def test_every_command_has_help(mindgap: Run, command: str) -> None:
    done = mindgap(*command.split(), "--help")
    assert done.returncode == 0
    assert len(done.stdout) > 200, "help should teach"


@pytest.mark.parametrize("command", commands())
def test_every_command_is_documented(command: str) -> None:
    texts = [path.read_text() for path in (ROOT / "README.md", ROOT / "CHANGELOG.md", *(ROOT / "docs").rglob("*.md"))]
    assert any(f"mindgap {command}" in text for text in texts), command


def test_platforms_lists_everything_with_a_reason(mindgap: Run) -> None:
    done = mindgap("platforms", "--json")
    platforms = json.loads(done.stdout)["platforms"]
    here = {name for name, row in platforms.items() if row["available"]}
    assert {"eager", "eager@scalar", "inductor", "onnxruntime", "openvino"} <= here
    for name in ("eager:cuda", "inductor:npu", "eager:mps"):
        assert name in platforms
    for name, row in platforms.items():
        assert row["available"] or (row["reason"] and row["install"]), name
        assert not row["available"] or (row["version"] and row["dtypes"]), name


def test_version(mindgap: Run) -> None:
    assert mindgap("--version").stdout.startswith("mindgap 0.")


def test_a_bug_of_ours_says_so_and_ends_with_three(mindgap: Run, tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text(
        "import mindgap.cli.platforms as p\n"
        "def load_config(path): raise KeyError('a planted bug')\n"
        "import mindgap.platforms.config as c\n"
        "c.load_config = load_config\n"
    )
    done = mindgap("platforms", PYTHONPATH=str(tmp_path))
    assert done.returncode == 3, done.stdout + done.stderr
    assert "bug in mindgap" in done.stderr and "attach" in done.stderr
    assert "Traceback" not in done.stderr

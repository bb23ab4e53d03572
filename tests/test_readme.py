"""What README and docs tell people to type works."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]

MY_MODEL = """
import torch
def build():
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.GELU()).eval(), (torch.ones(2, 8),)
"""


def commands_of(readme: str) -> list[str]:
    return re.findall(r"^    (mindgap [^\n]+)$", readme, re.MULTILINE)


def python_of(readme: str) -> str:
    blocks = re.findall(r"From Python:\n\n((?:    [^\n]*\n)+)", readme)
    return "\n".join(line.removeprefix("    ") for line in blocks[0].splitlines())


@pytest.mark.parametrize("command", commands_of((ROOT / "README.md").read_text()))
def test_every_command_of_the_readme_runs(command: str, tmp_path: Path) -> None:
    (tmp_path / "my_model.py").write_text(MY_MODEL)
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    done = subprocess.run(
        [sys.executable, "-m", "mindgap.cli", *shlex.split(command)[1:]],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode in (0, 1), done.stdout + done.stderr


def test_the_python_of_the_readme_runs(tmp_path: Path) -> None:
    code = f"{MY_MODEL}\nmodel, (x,) = build()\n{python_of((ROOT / 'README.md').read_text())}"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False, env=dict(os.environ)
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip()


@pytest.mark.parametrize("target", ["demo", "test", "cases", "roundtrip", "quality"])
def test_every_make_target_exists(target: str) -> None:
    done = subprocess.run(["make", "-n", target], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_every_link_in_the_documents_leads_somewhere() -> None:
    for document in (ROOT / "README.md", *(ROOT / "docs").rglob("*.md"), ROOT / "cases" / "README.md"):
        for target in re.findall(r"\]\(([^)#]+)\)", document.read_text()):
            assert (document.parent / target).exists(), f"{document.name}: {target}"

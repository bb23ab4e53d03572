"""The tutorial, done from beginning to end: what it prints is what the page shows."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "first-hour.md"

BLOCK = re.compile(r"(?:^`(?P<file>[\w.]+)`:\n\n)?^```(?P<kind>\w+)\n(?P<body>.*?)^```$", re.MULTILINE | re.DOTALL)
ANY_LINES = "..."


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("hour")


def steps() -> Iterator[tuple[str, str, str]]:
    """Each step of the page: a file to write, a command or Python to run, with what it prints."""
    code = ""
    for found in BLOCK.finditer(PAGE.read_text()):
        if found["file"]:
            yield "write", found["file"], found["body"]
        elif found["kind"] == "console":
            for part in re.split(r"^\$ ", found["body"], flags=re.MULTILINE)[1:]:
                command, _, shown = part.partition("\n")
                yield "run", command, shown
        elif found["kind"] == "python":
            code = found["body"]
        elif found["kind"] == "text":
            yield "python", code, found["body"]


def normal(line: str) -> str:
    """A line without what differs from machine to machine: times, last digits, room between columns."""
    line = re.sub(r"[~/][0-9a-f]{12}\b", "#", line)
    if re.match(r"F-\d+ ", line):
        line = re.sub(r"(?<!-)\d+", "#", line)  # how many variants a finding has depends on what else can be varied
    line = re.sub(r"\d+(?:\.\d+)?(?:e[+-]?\d+)?x?(?= (?:s\b|bytes|noise|rounding)|x\b)", "#", line)
    line = re.sub(r"-?\d+\.\d+(?:e[+-]?\d+)?x?|\b\d+e[+-]?\d+x?|\b\d+x\b|\[\d[\d, ]*\]", "#", line)
    return " ".join(line.split())


def assert_shown(shown: str, printed: str) -> None:
    """The lines of the page are those that were printed; `...` stands for any."""
    wanted, given = (
        [line for line in map(normal, text.splitlines()) if line and line != "#"] for text in (shown, printed)
    )
    exactly = True
    for line in wanted:
        if line == ANY_LINES:
            exactly = False
            continue
        assert line in (given[:1] if exactly else given), f"{line!r} is not printed next:\n{printed}"
        del given[: given.index(line) + 1]
        exactly = True
    assert not given or not exactly, f"more is printed: {given}"


@pytest.mark.timeout(1500)
def test_the_first_hour_goes_as_the_page_says(folder: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": str(folder), "COLUMNS": "400"}
    for kind, what, content in steps():
        if kind == "write":
            (folder / what).write_text(content)
            continue
        command = [sys.executable, "-c", what] if kind == "python" else [sys.executable, "-m", "mindgap"]
        command += shlex.split(what)[1:] if kind == "run" else []
        if what.startswith("mindgap explain"):
            command += ["--budget", "1200"]  # the page's own is enough for a machine that does nothing else
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False, env=environment)
        assert done.returncode == expected_code(content), f"{what}\n{done.stdout}\n{done.stderr}"
        assert_shown(content, done.stdout)
    assert (folder / "result.json").exists() and (folder / "out" / "why" / "issue.md").exists()


def expected_code(shown: str) -> int:
    """1 where the page shows a difference."""
    return 1 if re.search(r"platforms? diverges?\.|wrong value|What diverges", shown) else 0


def test_the_page_has_every_kind_of_step() -> None:
    found = list(steps())
    assert {kind for kind, _, _ in found} == {"write", "run", "python"}
    commands = [what for kind, what, _ in found if kind == "run"]
    for word in ("check", "explain", "hunt"):
        assert any(command.startswith(f"mindgap {word} ") for command in commands)


@pytest.mark.parametrize("printed", ["one\nthree", "one\ntwo\nthree\nfour", "two\none\nthree"])
def test_another_output_would_be_noticed(printed: str) -> None:
    assert_shown("one\ntwo\nthree\n", "one\ntwo\nthree\n")
    assert_shown("one\n...\nthree\n", "one\ntwo\nthree\n")
    with pytest.raises(AssertionError):
        assert_shown("one\ntwo\nthree\n", printed)

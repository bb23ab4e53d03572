"""What the documents tell people to type works, and what they show of the code is true."""

from __future__ import annotations

import importlib.util
import os
import re
import shlex
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.main import get_command

from mindgap.bench.made_campaign import write_campaign
from mindgap.cli import make_app
from mindgap.corpus.spelling import all_forms
from tests.loaded import loaded_text

ROOT = Path(__file__).resolve().parents[1]
README = ROOT / "README.md"
PAGES = [README, ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").glob("*.md"))]
EVERY_PAGE = [*PAGES, *sorted((ROOT / "docs").glob("*/*.md")), ROOT / "cases" / "README.md"]

MY_MODEL = """
import torch
def build():
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.GELU()).eval(), (torch.ones(2, 8),)
"""

FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def unfenced(text: str) -> str:
    """A page without its fenced blocks."""
    return FENCE.sub("", text)


def code_lines(text: str) -> list[str]:
    """The lines of indented blocks and of fenced shell; a line that ends with a backslash goes on with the next."""
    indented = "\n".join(line[4:] for line in unfenced(text).splitlines() if line.startswith("    "))
    fenced = "\n".join(body for kind, body in FENCE.findall(text) if kind in ("sh", "bash", "console"))
    return [line.removeprefix("$ ") for line in re.sub(r"\\\n\s*", "", f"{indented}\n{fenced}").splitlines()]


def inline(text: str) -> list[str]:
    """Commands inside sentences and tables: `mindgap bench hunt`."""
    return [" ".join(found.split()) for found in re.findall(r"`([^`]+)`", unfenced(text))]


def commands(program: str) -> list[Any]:
    """Each command line that starts with a program, with its page."""
    return [
        pytest.param(found, id=f"{page.name}: {found}")
        for page in PAGES
        for found in dict.fromkeys(
            line for line in code_lines(page.read_text()) if re.match(rf"(\S*/)?{program} ", line)
        )
    ]  # fmt: skip


def python_blocks(pages: list[Path]) -> list[Any]:
    return [
        pytest.param(body, id=f"{page.name}-{number}")
        for page in pages
        for number, (kind, body) in enumerate(FENCE.findall(page.read_text()))
        if kind == "python"
    ]


USAGE_ERROR: Any = typer.BadParameter.__base__
"""Typer has a click of its own, or uses the installed one, depending on its version."""


def parse(line: str) -> None:
    """Parse a command line of mindgap as if it were typed; raises when something in it does not exist or is missing."""
    words = shlex.split(line.partition(" # ")[0])[1:]
    name, command, context = "mindgap", get_command(make_app()), None
    while True:
        context = command.make_context(name, words, parent=context)
        if not hasattr(command, "commands"):
            return
        left = [*context._protected_args, *context.args]
        if not left:
            return
        name, command, words = command.resolve_command(context, left)


@pytest.mark.parametrize("line", commands("mindgap"))
def test_every_command_can_be_parsed(line: str) -> None:
    parse(line)


@pytest.mark.parametrize(
    "line",
    ["mindgap chekc model.py", "mindgap check model.py --one inductor", "mindgap merge out/hunt", "mindgap bench none"],
)
def test_a_command_that_does_not_exist_would_be_noticed(line: str) -> None:
    with pytest.raises(USAGE_ERROR):
        parse(line)


def test_every_command_inside_a_sentence_exists() -> None:
    """Sentences abbreviate (`mindgap hunt --cluster ADDRESS ...`), so only the words up to the first option count."""
    app: Any = get_command(make_app())
    for page in PAGES:
        for text in inline(page.read_text()):
            if text.startswith("mindgap ") and not text.startswith("mindgap -"):
                _, first, *rest = text.split()
                assert first in app.commands, f"{page.name}: {text}"
                inner = getattr(app.commands[first], "commands", None)
                assert inner is None or not rest or rest[0] in inner or rest[0].isupper() or rest[0][0] == "-", (
                    f"{page.name}: {text}"
                )


def test_every_make_target_exists() -> None:
    named = {
        (page.name, target)
        for page in EVERY_PAGE
        for line in (*code_lines(page.read_text()), *inline(page.read_text()))
        for target in re.findall(r"^make ([a-z-]+)", line)
    }
    assert ("README.md", "demo") in named and ("README.md", "test") in named
    for page, target in sorted(named):
        done = subprocess.run(["make", "-n", target], cwd=ROOT, capture_output=True, text=True, check=False)
        assert done.returncode == 0, f"{page}: {done.stderr}"


def test_every_module_that_is_to_be_run_exists() -> None:
    for page in EVERY_PAGE:
        for line in (*code_lines(page.read_text()), *inline(page.read_text())):
            for module in re.findall(r"python -m ([\w.]+)", line):
                assert importlib.util.find_spec(module) is not None, f"{page.name}: {line}"


def test_every_script_that_is_to_be_run_exists() -> None:
    for page in EVERY_PAGE:
        for script in re.findall(r"\b(?:scripts|tests|src|examples)/[\w/]+\.py\b", page.read_text()):
            assert (ROOT / script).exists(), f"{page.name}: {script}"


def test_every_test_that_is_named_exists() -> None:
    written = "\n".join(path.read_text() for path in (ROOT / "tests").rglob("test_*.py"))
    for page in EVERY_PAGE:
        for name in re.findall(r"`(test_\w+)`", page.read_text()):
            assert f"def {name}(" in written, f"{page.name}: {name}"


def test_every_word_of_the_glossary_has_its_file() -> None:
    rows = re.findall(r"^\| (\w[\w ]*) \| .* \| (`.*`) \|$", (ROOT / "docs" / "glossary.md").read_text(), re.MULTILINE)
    assert len(rows) > 30
    for word, files in rows:
        for file in re.findall(r"`([^`]+)`", files):
            path = ROOT / "src" / "mindgap" / file
            assert path.exists(), f"{word}: {file}"
            texts = [file, *(p.read_text() for p in ([path] if path.is_file() else path.glob("*.py")))]
            said = word.replace("noise floor", "floor")
            is_said = any(re.search(rf"(\b|_){said}", text, re.IGNORECASE) for text in texts)
            assert is_said, f"{file} does not say {word}"


@pytest.mark.parametrize("block", python_blocks(PAGES))
def test_python_compiles(block: str) -> None:
    compile(block, "page", "exec")


def test_python_is_fenced() -> None:
    """Otherwise nobody would compile it."""
    for page in PAGES:
        found = re.findall(r"^    (?:import \w+|from [\w.]+ import .*)$", unfenced(page.read_text()), re.MULTILINE)
        assert not found, f"{page.name}: {found}"


@pytest.mark.parametrize("command", re.findall(r"^    (mindgap [^\n]+)$", README.read_text(), re.MULTILINE))
def test_every_command_of_the_readme_runs(command: str, tmp_path: Path) -> None:
    (tmp_path / "my_model.py").write_text(MY_MODEL)
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    if command.startswith("mindgap report "):
        write_campaign(tmp_path / "out" / "hunt", 40)
    done = subprocess.run(
        [sys.executable, "-m", "mindgap", *shlex.split(command)[1:]],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode in (0, 1), done.stdout + done.stderr


@pytest.mark.parametrize("block", python_blocks([README]))
def test_the_python_of_the_readme_runs(block: str, tmp_path: Path) -> None:
    (tmp_path / "my_model.py").write_text(MY_MODEL)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])}
    done = subprocess.run(
        [sys.executable, "-c", block], cwd=tmp_path, capture_output=True, text=True, check=False, env=environment
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip()


def test_every_link_leads_somewhere() -> None:
    for page in EVERY_PAGE:
        for target, anchor in re.findall(r"\]\(([^)#\s]*)(?:#([^)]+))?\)", page.read_text()):
            if target.startswith(("http:", "https:")):
                continue
            found = (page.parent / target).resolve() if target else page
            assert found.exists(), f"{page.name}: {target}"
            if anchor and found.suffix == ".md":
                assert anchor in anchors(found.read_text()), f"{page.name}: {target}#{anchor}"


def anchors(text: str) -> set[str]:
    """What a link may name in a page: its headings as GitHub spells them, and marks of its own."""
    titles = re.findall(r"^#+ (.*)$", unfenced(text), re.MULTILINE)
    spelled = {re.sub(r"[^\w\- ]", "", title.lower()).strip().replace(" ", "-") for title in titles}
    return spelled | set(re.findall(r'<a id="([\w-]+)">', text))


def script(name: str) -> Any:
    spec = importlib.util.spec_from_file_location(name, ROOT / "scripts" / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_picture_of_imports_is_current() -> None:
    assert (ROOT / "docs" / "images" / "imports.svg").read_text() == script("draw_imports").draw(), (
        "run: make reference"
    )


def test_the_fields_of_an_explanation_are_current() -> None:
    page = (ROOT / "docs" / "json.md").read_text()
    assert page == script("describe_records").described(page), "run: make reference"


def test_what_a_worker_loads_is_current() -> None:
    shown = next(
        body for kind, body in FENCE.findall((ROOT / "docs" / "architecture.md").read_text()) if kind == "text"
    )
    assert shown.strip() == textwrap.dedent(loaded_text("eager")).strip(), "see: python -m tests.loaded eager"


def test_every_table_of_the_ledger_is_described() -> None:
    from mindgap.campaign.export import FINDINGS, TABLES
    from mindgap.campaign.ledger import SCHEMA, SCHEMA_VERSION

    page = (ROOT / "docs" / "hunt.md").read_text()
    assert f"schema {SCHEMA_VERSION}" in page
    for table, content in re.findall(r"CREATE TABLE IF NOT EXISTS (\w+) \((.*?)\)[^)]*;", SCHEMA, re.DOTALL):
        row = re.search(rf"^\| `{table}` \|.*$", page, re.MULTILINE)
        assert row is not None, table
        for column in re.findall(r"(?:^|,)\s*(\w+) (?:TEXT|INTEGER|REAL|BLOB)", content):
            assert f"`{column}`" in row[0], f"{table}.{column}"
    assert all(f"`{name}`" in page for name in TABLES)
    row = re.search(r"^\| `findings` \|.*$", page, re.MULTILINE)
    assert row is not None and all(f"`{column}`" in row[0] for column in FINDINGS)


def test_every_form_of_a_model_is_described() -> None:
    page = (ROOT / "docs" / "check.md").read_text()
    missing = [form for form in all_forms() if f"`{form.partition(' ')[0]}`" not in page]
    assert not missing

"""`mindgap report`, `compare` and `show` as users call them, and the workflow of docs/ci.md."""

from __future__ import annotations

import re
import shlex
import shutil
import sqlite3
from pathlib import Path
from xml.etree import ElementTree

import pytest

from mindgap.bench.made_campaign import write_campaign
from tests.cli.conftest import Run
from tests.test_documents import FENCE, MY_MODEL

ROOT = Path(__file__).resolve().parents[2]


def test_a_campaign_becomes_a_page_and_two_become_a_comparison(mindgap: Run, tmp_path: Path) -> None:
    pytest.importorskip("altair")
    write_campaign(tmp_path / "old", 60, 0, explained=2)
    shutil.copytree(tmp_path / "old", tmp_path / "before")  # as if nothing had diverged then
    with sqlite3.connect(tmp_path / "before" / "ledger.sqlite") as data:
        data.execute("UPDATE verdicts SET conclusion = 'agrees', kind = NULL WHERE conclusion = 'diverges'")
    done = mindgap("report", "old", "-o", "report.html")
    assert done.returncode == 0 and "MB" in done.stdout, done.stderr
    assert "default-src" in (tmp_path / "report.html").read_text()
    same = mindgap("compare", "old", "old")
    assert same.returncode == 0 and "Nothing changed" in same.stdout
    other = mindgap("compare", "before", "old", "--junit", "j.xml", "--markdown", "m.md", "-o", "c.html")
    assert other.returncode == 1 and "new problem" in other.stdout, other.stderr
    assert int(ElementTree.parse(tmp_path / "j.xml").getroot().attrib["failures"]) > 0
    assert "appeared" in (tmp_path / "m.md").read_text() and (tmp_path / "c.html").stat().st_size > 10_000


def test_a_finding_is_shown_around_its_operator(mindgap: Run, tmp_path: Path) -> None:
    write_campaign(tmp_path / "made", 60, 0, explained=2)
    done = mindgap("show", "F-01", "--campaign", "made", "-o", "f.svg")
    assert done.returncode == 0 and ">   %" in done.stdout, done.stderr
    ElementTree.parse(tmp_path / "f.svg")
    assert "g-culprit" in (tmp_path / "f.svg").read_text()


def test_a_model_is_shown_whole_or_around_an_operator(mindgap: Run, tmp_path: Path) -> None:
    whole = mindgap("show", "smoke:language-bert", "-o", "b.svg")
    assert whole.returncode == 0 and "layer_norm(" in whole.stdout, whole.stderr
    assert "operators<" in (tmp_path / "b.svg").read_text(), "by module"
    part = mindgap("show", "smoke:language-bert", "--around", "aten.layer_nrom", "--most", "5")
    assert part.returncode == 2 and "did you mean" in part.stderr


@pytest.mark.parametrize(
    "arguments, said",
    [
        (["report", "nowhere"], "there is no nowhere"),
        (["report", "."], "there is nothing to report"),
        (["compare", "a.json", "b.json"], "there is no a.json"),
        (["compare", ".", ".", "--fail-on", "everything"], "--fail-on does not know"),
        (["show", "F-01"], "--campaign is missing"),
        (["report", ".", "-o", "no/such/report.html"], "cannot write"),
    ],
)
def test_mistakes_are_told(mindgap: Run, arguments: list[str], said: str) -> None:
    done = mindgap(*arguments)
    assert done.returncode == 2 and said in done.stderr, done.stderr


def workflow_commands() -> list[list[str]]:
    """The calls of mindgap in the two workflows of docs/ci.md, each once, in order."""
    text = (ROOT / "docs" / "ci.md").read_text()
    blocks = [body for kind, body in FENCE.findall(text) if kind == "yaml"]
    assert len(blocks) == 2
    lines = [re.sub(r"^\s*(- )?(run: )?", "", line) for block in blocks for line in block.splitlines()]
    found = list(dict.fromkeys(line for line in lines if line.startswith("mindgap ")))
    return [shlex.split(line)[1:] for line in found]


def test_the_workflow_of_the_page_runs(mindgap: Run, tmp_path: Path) -> None:
    """As a build server would: a baseline first, then what the workflow calls; nothing is new, so nothing fails."""
    import yaml

    for kind, body in FENCE.findall((ROOT / "docs" / "ci.md").read_text()):
        assert kind != "yaml" or isinstance(yaml.safe_load(body), dict)
    (tmp_path / "model.py").write_text(MY_MODEL)
    made = mindgap("check", "model.py:build", "--on", "eager@scalar,onnxruntime", "--json", "baseline.json")
    assert made.returncode == 0, made.stderr
    for arguments in workflow_commands():
        done = mindgap(*arguments)
        assert done.returncode == 0, done.stderr
    tests = ElementTree.parse(tmp_path / "junit.xml").getroot()
    assert (tests.attrib["tests"], tests.attrib["failures"]) == ("2", "0")
    assert "model.py" in (tmp_path / "summary.md").read_text()
    assert (tmp_path / "report.html").stat().st_size > 10_000

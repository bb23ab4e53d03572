"""`mindgap report`, `compare` and `show` as users call them, and the workflow of docs/ci.md."""

from __future__ import annotations

import os
import shutil
import sqlite3
import subprocess
import sys
from pathlib import Path
from typing import Any
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


def test_what_is_damaged_or_something_else_is_told(mindgap: Run, tmp_path: Path) -> None:
    (tmp_path / "damaged").mkdir()
    (tmp_path / "damaged" / "ledger.sqlite").write_bytes(b"no database, whatever its name says" * 99)
    (tmp_path / "empty").mkdir()
    (tmp_path / "half.json").write_text('{"schema": "mindgap.check/1", "runs": [')
    for name in ("damaged", "empty", "half.json"):
        for arguments in (["report", name], ["report", name, "--serve", "--port", "0"], ["compare", name, name]):
            done = mindgap(*arguments)
            assert done.returncode == 2 and "Traceback" not in done.stderr, (arguments, done.stderr)
            assert name in done.stderr, (arguments, done.stderr)


def workflows() -> tuple[dict[str, Any], dict[str, Any]]:
    """Those of docs/ci.md: of GitHub Actions and of GitLab."""
    import yaml

    blocks = [body for kind, body in FENCE.findall((ROOT / "docs" / "ci.md").read_text()) if kind == "yaml"]
    github, gitlab = map(yaml.safe_load, blocks)
    return github["jobs"]["mindgap"], gitlab["mindgap"]


def scripts_of(job: dict[str, Any]) -> list[str]:
    """What a job runs, step by step, as its shell gets it; actions of others are not here."""
    if "steps" in job:
        return [step["run"] for step in job["steps"] if "run" in step]
    return [*job["script"], *job["after_script"]]


def kept_by(job: dict[str, Any]) -> list[str]:
    """The files that a job keeps, whatever became of it."""
    if "steps" in job:
        (upload,) = [step for step in job["steps"] if "upload-artifact" in step.get("uses", "")]
        assert upload["if"] == "always()"
        return str(upload["with"]["path"]).split()
    assert job["artifacts"]["when"] == "always"
    return [*job["artifacts"]["paths"], job["artifacts"]["reports"]["junit"]]


def test_the_workflows_of_the_page_run(mindgap: Run, tmp_path: Path) -> None:
    """As a build server would: a baseline first, then every step through a shell; nothing is new, so nothing fails."""
    pytest.importorskip("yaml")
    (tmp_path / "model.py").write_text(MY_MODEL)
    tools = tmp_path / "tools"
    tools.mkdir()
    for name, does in (("mindgap", f'exec {sys.executable} -m mindgap "$@"'), ("pip", "exit 0")):
        (tools / name).write_text(f"#!/bin/sh\n{does}\n")
        (tools / name).chmod(0o755)
    environment = {
        **os.environ, "PATH": f"{tools}:{os.environ['PATH']}", "GITHUB_STEP_SUMMARY": str(tmp_path / "step.md"),
    }  # fmt: skip
    made = mindgap("check", "model.py:build", "--on", "eager@scalar,onnxruntime", "--json", "baseline.json")
    assert made.returncode == 0, made.stderr
    jobs = workflows()
    for script in dict.fromkeys(script for job in jobs for script in scripts_of(job)):  # what both run, once
        command = ["bash", "-e", "-o", "pipefail", "-c", script]
        done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == 0, (script, done.stderr)
    for job in jobs:
        for name in kept_by(job):
            assert (tmp_path / name).stat().st_size > 0, name
    tests = ElementTree.parse(tmp_path / "junit.xml").getroot()
    assert (tests.attrib["tests"], tests.attrib["failures"]) == ("2", "0")
    assert "model.py" in (tmp_path / "step.md").read_text()
    assert (tmp_path / "report.html").stat().st_size > 10_000

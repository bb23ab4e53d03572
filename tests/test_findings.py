"""Findings worth filing: folders that are whole, scripts that are short, and an index that tells which hold."""

from __future__ import annotations

import ast
import importlib.util
import json
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parents[1]
FOLDERS = sorted(path.parent for path in (ROOT / "findings").glob("*/finding.json"))


@pytest.fixture
def findings(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> ModuleType:
    monkeypatch.syspath_prepend(str(ROOT / "scripts"))  # as for a script that is run
    spec = importlib.util.spec_from_file_location("findings", ROOT / "scripts" / "findings.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    monkeypatch.setattr(module, "FOLDER", tmp_path)
    return module


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_a_finding_has_a_short_script_a_text_and_its_facts(folder: Path, findings: ModuleType) -> None:
    script = (folder / "repro.py").read_text()
    ast.parse(script)
    assert len(script.splitlines()) <= 15 and "mindgap" not in script
    facts = json.loads((folder / "finding.json").read_text())
    assert facts["severity"] in findings.SEVERITIES and isinstance(facts["ordinary"], bool)
    assert facts["platform"] and facts["operator"] and facts["versions"]
    assert (folder / "issue.md").read_text().startswith(f"# {facts['platform']}")
    assert f"({folder.name}/issue.md)" in (ROOT / "findings" / "README.md").read_text()


def test_scripts_run_again_and_the_index_says_which_hold(findings: ModuleType, tmp_path: Path) -> None:
    scripts = {
        "wrong": ("raise AssertionError('not close')", "accuracy loss"),
        "mended": ("print('fine')\n# assert_close()", "validation"),
        "broken": ("import no_such_runtime", "crash"),
        "dying": ("import os; os.abort()", "crash"),
        "other": ("raise ValueError('another error')\nassert_close()", "exceptional values"),
        "refusing": ("raise ValueError('this platform does not take it')", "validation"),
    }
    for name, (script, severity) in scripts.items():
        (tmp_path / name).mkdir()
        (tmp_path / name / "repro.py").write_text(script)
        facts = {
            "platform": "p",
            "version": "1",
            "operator": "aten.o",
            "severity": severity,
            "cause": "c",
            "remark": "a | b",
            "cases": [],
            "ordinary": name != "dying",
            "kind": "value",
        }
        (tmp_path / name / "finding.json").write_text(
            json.dumps(facts | {"sentence": "", "versions": {"torch": "2"}, "also": ["aten.p"]})
        )
    assert findings.run() == 1
    index = (tmp_path / "README.md").read_text()
    assert "**3 of 6 hold**" in index and "and 1 more" in index and "a \\| b" in index
    assert "**2 hold**: 2 on p." in index, "of those with ordinary numbers"
    (tmp_path / "dying" / "repro.py").write_text("print('mended')")
    (tmp_path / "mended" / "repro.py").write_text("raise AssertionError('assert_close')")
    assert findings.run(names=["mended"]) == 0, "of those that ran"
    assert "**4 of 6 hold**" in (tmp_path / "README.md").read_text(), "the others stay as they were"
    held = {name: "| yes |" in line for line in index.splitlines() for name in scripts if f"({name}/" in line}
    assert held == {
        "wrong": True, "mended": False, "broken": False, "dying": True, "other": False, "refusing": True,
    }  # fmt: skip


def test_a_finding_of_a_runtime_that_is_not_installed_is_not_called_gone(
    findings: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MINDGAP_PLATFORMS", str(tmp_path / "none"))
    (tmp_path / "far").mkdir()
    (tmp_path / "far" / "repro.py").write_text("raise AssertionError")
    facts = {
        "platform": "tract",
        "version": "1",
        "operator": "aten.o",
        "severity": "crash",
        "cause": "c",
        "remark": "",
        "cases": [],
    }
    facts |= {"sentence": "", "versions": {"torch": "2"}, "also": [], "ordinary": True, "kind": "value"}
    (tmp_path / "far" / "finding.json").write_text(json.dumps(facts))
    assert findings.run() == 0
    index = (tmp_path / "README.md").read_text()
    assert "**0 of 1 hold**" in index and "| not run |" in index


@pytest.mark.parametrize("text, ordinary", [
    ("torch.tensor([[0.5, -3.0, 0.0]])", True), ("torch.tensor([-7, 9999])", True), ("torch.full((3, 1), 1e38)", False),
    ("torch.tensor([float('nan')])", False), ("torch.tensor([1e-30])", False), ("torch.tensor([-2147483648])", False),
    ("torch.full((1048576,), 0.1)", True), ("torch.full((3,), 1e30)", False), ("torch.tensor([-0.0])", False),
    ("torch.tensor([-0.01])", True),
])  # fmt: skip
def test_numbers_that_anybody_meets_are_told_from_others(findings: ModuleType, text: str, ordinary: bool) -> None:
    assert findings._is_ordinary(text) is ordinary

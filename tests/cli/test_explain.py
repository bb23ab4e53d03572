"""`mindgap explain` as a user types it, on a difference that is real."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from mindgap.campaign.ledger import Ledger
from mindgap.campaign.plan import Plan
from tests.cli.conftest import Run

BUCKETS = """
import torch
def model(x):
    return torch.softmax((torch.div(x - 3, 2, rounding_mode="floor") + 4).float(), 0)
def inputs():
    return [torch.arange(6)]
"""


@pytest.fixture
def here(tmp_path: Path) -> Path:
    (tmp_path / "buckets.py").write_text(BUCKETS)
    return tmp_path


def test_a_real_difference_becomes_an_operator_a_cause_and_a_script(mindgap: Run, here: Path) -> None:
    done = mindgap("explain", "buckets.py", "--on", "openvino", "-o", "out", "--json", "result.json")
    assert done.returncode == 1, done.stdout + done.stderr
    assert "aten.div" in done.stdout and "rounds toward zero" in done.stdout and "still differs" in done.stdout
    document = json.loads((here / "result.json").read_text())
    assert document == json.loads((here / "out" / "explain.json").read_text())
    assert document["schema"] == "mindgap.explain/2"
    assert [step["op"] for step in document["operators"]] == ["aten.div.Tensor_mode"]
    assert len(document["proof"]["operators"]) == 1 and document["proof"]["survived"]
    assert document["trace"][-1]["inherits"]
    issue = (here / "out" / "issue.md").read_text()
    assert "torch.div(" in issue and "float64" in issue and "- openvino" in issue
    again = subprocess.run([sys.executable, "repro.py"], cwd=here / "out", capture_output=True, text=True, check=False)
    assert again.returncode == 1 and "DIFFERS" in again.stdout


SCORES = """
import torch
def model(x):
    return -torch.div(x, 2, rounding_mode="floor").float() + torch.tensor([0.0, 1.5])
def inputs():
    return [torch.zeros(1, 2, dtype=torch.int64)]
"""
"""The second of two classes where halves are rounded toward zero, as OpenVINO rounds them."""


def test_a_sample_that_an_evaluation_kept(mindgap: Run, tmp_path: Path) -> None:
    (tmp_path / "scores.py").write_text(SCORES)
    np.savez(tmp_path / "rows.npz", x=np.array([[4, 0], [-3, 0], [2, 0]]), labels=np.array([1, 0, 1]))
    done = mindgap("evaluate", "scores.py", "--data", "rows.npz", "--on", "openvino", "-o", "kept", "--batch", "3")
    assert done.returncode == 1 and "regression" in done.stdout, done.stdout + done.stderr
    done = mindgap("explain", "--sample", "1", "--on", "openvino", "-o", "kept", "--budget", "120")
    assert done.returncode == 1, done.stdout + done.stderr
    assert "aten.div" in done.stdout and "still differs" in done.stdout
    place = tmp_path / "kept" / "sample-1"
    assert json.loads((place / "explain.json").read_text())["proof"]["survived"]
    assert (place / "repro.py").is_file() and (place / "issue.md").is_file()


def test_a_finding_needs_a_campaign(mindgap: Run, here: Path) -> None:
    done = mindgap("explain", "F-03", "-o", "nowhere")
    assert done.returncode == 2 and "there is no campaign" in done.stderr
    assert mindgap("explain").returncode == 2


def test_all_findings_of_a_campaign_without_any_is_no_error(mindgap: Run, here: Path) -> None:
    with Ledger(here / "quiet") as ledger:
        ledger.set_meta(plan=Plan(("eager", "openvino"), 3).to_text())
    done = mindgap("explain", "--all", "-o", "quiet", "--json", "none.json")
    assert done.returncode == 0, done.stdout + done.stderr
    assert json.loads((here / "none.json").read_text())["findings"] == []

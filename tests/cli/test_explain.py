"""`mindgap explain` as a user types it, on a difference that is real."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

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

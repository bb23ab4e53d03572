"""`mindgap ops` as people type it."""

from __future__ import annotations

import json
from pathlib import Path

from tests.cli.conftest import Run


def test_declared_tables_are_printed_written_and_compared(mindgap: Run, tmp_path: Path) -> None:
    options = ("ops", "--declared", "--on", "eager:mps,eager:cuda,eager:npu")
    done = mindgap(*options, "--json", "ops.json", "--csv", "ops.csv", "--markdown", "ops.md")
    assert done.returncode == 0, done.stderr
    assert "fewer operators" in done.stdout and "nothing is declared of eager:npu" in done.stdout
    found = json.loads((tmp_path / "ops.json").read_text())
    assert found["schema"] == "mindgap.ops/1" and found["observed"] is None
    assert (tmp_path / "ops.csv").read_text().startswith("evidence,platform,operator")
    assert "# Operators" in (tmp_path / "ops.md").read_text()
    mps = next(item for item in found["declared"] if item["platform"] == "eager:mps")
    lost = next(op for op, has in mps["operators"].items() if has == "missing")
    mps["operators"][lost] = "kernel"
    (tmp_path / "ops.json").write_text(json.dumps(found))
    again = mindgap(*options, "--baseline", "ops.json")
    assert again.returncode == 1 and "1 of them worse" in again.stdout and lost in again.stdout


def test_an_unknown_operator_names_the_nearest(mindgap: Run) -> None:
    done = mindgap("ops", "--declared", "--ops", "sofmax", "--on", "eager:cuda")
    assert done.returncode == 2 and "there is no operator sofmax" in done.stderr and "softmax" in done.stderr

"""Without extras, and without a compiler, the commands use what is ready and say how to get the rest."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.conftest import Run


@pytest.fixture
def bare(tmp_path: Path) -> dict[str, str]:
    """The environment of somebody who installed only mindgap itself."""
    hidden = tmp_path / "hidden"
    for package in ("onnx", "onnxruntime", "openvino"):
        (hidden / package).mkdir(parents=True)
        text = f'raise ModuleNotFoundError("No module named {package}", name="{package}")'
        (hidden / package / "__init__.py").write_text(text)
    (tmp_path / "m.py").write_text("import torch\ndef model(x): return x + 1\ndef inputs(): return [torch.ones(3)]\n")
    return {"PYTHONPATH": str(hidden), "PATH": str(hidden)}


def test_check_runs_on_what_is_ready(mindgap: Run, tmp_path: Path, bare: dict[str, str]) -> None:
    done = mindgap("check", "m.py", "--json", "out.json", **bare)
    assert done.returncode == 0, done.stdout + done.stderr
    document = json.loads((tmp_path / "out.json").read_text())
    assert list(document["platforms"]) == ["eager@scalar"]
    assert set(document["left_out"]) == {"inductor", "onnxruntime", "openvino"}
    for command in ("pip install 'mindgap[onnx]'", "pip install 'mindgap[openvino]'", "apt-get install g++"):
        assert command in done.stdout
    assert "left out: openvino (openvino is not installed; get it with: " in done.stdout


def test_a_platform_that_was_asked_for_is_never_left_out(mindgap: Run, bare: dict[str, str]) -> None:
    done = mindgap("check", "m.py", "--on", "eager,openvino", **bare)
    assert done.returncode == 2
    assert "platform openvino cannot be used here" in done.stderr and "mindgap[openvino]" in done.stderr


def test_hunt_runs_on_what_is_ready(mindgap: Run, tmp_path: Path, bare: dict[str, str]) -> None:
    done = mindgap(
        "hunt",
        "--variants",
        "2",
        "--sample",
        "inductor=5%",
        "--corpus",
        "smoke:recommendation-gru4rec",
        "-o",
        "out",
        **bare,
    )
    assert done.returncode in (0, 1), done.stdout + done.stderr
    assert done.stdout.count("left out: ") == 3
    assert "eager@scalar" in (tmp_path / "out" / "summary.md").read_text()

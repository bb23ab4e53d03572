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


MODEL = """import torch

def build():
    return torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.ReLU()), (torch.ones(2, 4),)

class Pool(torch.nn.Module):
    def forward(self, x):
        return torch.nn.functional.adaptive_avg_pool3d(x, 1)

def pool():
    return Pool(), (torch.ones(1, 2, 4, 4, 4),)
"""


def test_whether_platforms_could_run_a_model(mindgap: Run, tmp_path: Path) -> None:
    (tmp_path / "model.py").write_text(MODEL)
    fits = mindgap("ops", "model.py:build", "--on", "eager:mps,eager:cuda", "--json", "fits.json")
    assert fits.returncode == 0, fits.stderr
    found = json.loads((tmp_path / "fits.json").read_text())
    assert found["could_run"] == {"eager:mps": "yes", "eager:cuda": "yes"}
    lacks = mindgap("ops", "model.py:pool", "--on", "eager:mps,eager:npu")
    assert lacks.returncode == 1 and "adaptive_avg_pool3d" in lacks.stdout and "nothing is declared of" in lacks.stdout


def test_a_platform_that_declares_nothing_gives_no_answer(mindgap: Run, tmp_path: Path) -> None:
    (tmp_path / "model.py").write_text(MODEL)
    for options in (("model.py:build",), ("--declared",)):
        done = mindgap("ops", *options, "--on", "eager:npu")
        assert done.returncode == 2 and "nothing is declared of" in done.stderr and "torch_npu" in done.stderr


def test_an_unknown_operator_names_the_nearest(mindgap: Run) -> None:
    done = mindgap("ops", "--declared", "--ops", "sofmax", "--on", "eager:cuda")
    assert done.returncode == 2 and "there is no operator sofmax" in done.stderr and "softmax" in done.stderr


def test_models_are_counted_over_a_table(mindgap: Run, tmp_path: Path) -> None:
    table = {
        "schema": "mindgap.corpus-operators/1", "versions": {},
        "operators": ["aten.relu.default", "aten.cudnn_x.default"],
        "models": {"timm:a": [0], "timm:b": [0, 1]},
    }  # fmt: skip
    (tmp_path / "table.json").write_text(json.dumps(table))
    done = mindgap("ops", "--declared", "--on", "eager:mps", "--models", "table.json", "--json", "-")
    assert done.returncode == 0, done.stderr
    (found,) = json.loads(done.stdout)["predicted"]
    assert (found["models"], found["runnable"]) == (2, 1) and found["blocking"] == {"aten.cudnn_x.default": 1}


def test_a_package_may_be_a_folder(mindgap: Run, tmp_path: Path) -> None:
    lists = tmp_path / "torch_npu" / "csrc" / "aten"
    lists.mkdir(parents=True)
    (lists / "npu_native_functions.yaml").write_text("backend: NPU\nsupported:\n  - add.out\n")
    done = mindgap("ops", "--declared", "--on", "eager:npu", "--package", "torch_npu", "--ops", "add", "--json", "-")
    assert done.returncode == 0, done.stderr
    (found,) = json.loads(done.stdout)["declared"]
    assert found["operators"]["aten.add.Tensor"] == "kernel"


def test_mistakes_are_told_in_words(mindgap: Run, tmp_path: Path) -> None:
    (tmp_path / "no.whl").write_bytes(b"#!/bin/sh\n")
    for options, told in {
        ("--declared", "--package", "no.whl"): "no.whl is not a wheel",
        ("--declared", "--package", "none.whl"): "none.whl",
        ("--dtype", "float7", "-o", "out"): "--dtype does not know 'float7'",
        (): "nothing to do",
    }.items():
        done = mindgap("ops", *options)
        assert done.returncode == 2 and told in done.stderr and "Traceback" not in done.stderr, done.stderr
        assert not (tmp_path / "out").exists()

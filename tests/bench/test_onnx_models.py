"""ONNX files of corpora and of wheels."""

from __future__ import annotations

import zipfile
from pathlib import Path

import pytest
import torch

from mindgap.bench.audited import SIZES
from mindgap.bench.onnx_models import _inputs, _shipped, _summary
from mindgap.errors import UsageError


def test_every_model_of_a_wheel_is_taken_out(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "voice-1.0-py3-none-any.whl", "w") as wheel:
        wheel.writestr("voice/data/small.onnx", b"small")
        wheel.writestr("voice/__init__.py", b"")
        wheel.writestr("../../outside.onnx", b"outside")
        wheel.writestr("voice/again/copy.onnx", b"small")
    folder = tmp_path / "out"
    folder.mkdir()
    found = _shipped(folder, tmp_path)
    assert {name: path.read_bytes() for name, path in found.items()} == {
        "voice/small.onnx": b"small",
        "voice/outside.onnx": b"outside",
    }
    assert all(path.parent == folder for path in found.values())


def test_a_folder_without_wheels_says_how_to_get_some(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="holds no wheel"):
        _shipped(tmp_path, tmp_path)


def test_open_sizes_get_inputs_of_several_sizes(tmp_path: Path) -> None:
    pytest.importorskip("onnx")
    from onnx import helper

    from tests.verdicts.test_onnx_runner import saved

    nodes = [helper.make_node("Relu", ["x"], ["y"])]
    assert _inputs(saved(tmp_path / "fixed.onnx", nodes, {"x": [1, 3]}, ["y"])) == [None]
    given = _inputs(saved(tmp_path / "open.onnx", nodes, {"x": ["n", 3, "h"]}, ["y"]))
    assert [tuple(torch.load(str(file))["x"].shape) for file in given] == [(1, 3, size) for size in SIZES]


def test_the_table_counts_verdicts_and_keeps_what_was_not_checked() -> None:
    rows = [
        {"model": "smoke:a", "verdict": "rounding", "floors": 2.0},
        {"model": "smoke:b", "verdict": "agrees", "floors": None},
        {"model": "smoke:c", "verdict": "not checked"},
    ]
    found = _summary("exported from the corpus, onnxruntime", rows)
    assert (found["checked"], found["agrees"], found["rounding"], found["other"]) == (3, 1, 1, 1)
    assert found["platform"] == "onnxruntime"

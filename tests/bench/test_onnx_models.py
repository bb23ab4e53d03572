"""ONNX files of corpora and of wheels."""

from __future__ import annotations

import zipfile
from pathlib import Path

import pytest

from mindgap.bench.onnx_models import _shipped, _summary
from mindgap.errors import UsageError


def test_every_model_of_a_wheel_is_taken_out(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "voice-1.0-py3-none-any.whl", "w") as wheel:
        wheel.writestr("voice/data/small.onnx", b"small")
        wheel.writestr("voice/__init__.py", b"")
        wheel.writestr("../../outside.onnx", b"outside")
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


def test_the_table_counts_verdicts_and_keeps_what_was_not_checked() -> None:
    rows = [
        {"model": "smoke:a", "verdict": "rounding", "floors": 2.0},
        {"model": "smoke:b", "verdict": "agrees", "floors": None},
        {"model": "smoke:c", "verdict": "not checked"},
    ]
    found = _summary("exported from the corpus, onnxruntime", rows)
    assert (found["checked"], found["agrees"], found["rounding"], found["other"]) == (3, 1, 1, 1)
    assert found["platform"] == "onnxruntime"

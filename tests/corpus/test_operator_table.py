"""The operators of each model in one file: written from a store, read back, refused when it is something else."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from mindgap.corpus.operator_table import SCHEMA, read_table, table_text
from mindgap.corpus.store import Entry, Status
from mindgap.errors import CorruptFile


def entry(spec: str, status: Status, *operators: str) -> Entry:
    return Entry(spec, "timm", "vision", status, operators=operators, versions='{"timm": "1.0"}')


def test_built_models_are_written_and_read_back(tmp_path: Path) -> None:
    entries = [
        entry("timm:b", Status.BUILT, "aten.mul.Tensor", "aten.add.Tensor"),
        entry("timm:a", Status.BUILT, "aten.add.Tensor"),
        entry("timm:c", Status.FAILED),
    ]
    path = tmp_path / "operators.json"
    path.write_text(table_text(entries))
    found = read_table(path)
    assert found.versions == {"timm": "1.0"}
    assert found.by_model() == {"timm:a": ["aten.add.Tensor"], "timm:b": ["aten.add.Tensor", "aten.mul.Tensor"]}


def test_an_empty_store_is_an_empty_table(tmp_path: Path) -> None:
    path = tmp_path / "operators.json"
    path.write_text(table_text([]))
    assert read_table(path).by_model() == {}


SOUND = {"schema": SCHEMA, "versions": {}, "operators": ["aten.add.Tensor"], "models": {"a": [0]}}


@pytest.mark.parametrize(
    "change",
    [
        {"schema": "other/1"},
        {"models": {"a": [1]}},
        {"models": {"a": [-1]}},
        {"models": {"a": ["x"]}},
        {"operators": 7},
    ],
)
def test_a_file_that_is_no_table_is_refused(tmp_path: Path, change: dict[str, object]) -> None:
    path = tmp_path / "operators.json"
    path.write_text(json.dumps({**SOUND, **change}))
    with pytest.raises(CorruptFile, match="not a table"):
        read_table(path)

"""A small campaign of fragments where nothing is wrong: every way runs all of them, and none is accused."""

from __future__ import annotations

from pathlib import Path

from mindgap.bench.alarms import WAYS, measure


def test_nobody_is_accused_where_nothing_is_wrong(tmp_path: Path) -> None:
    found = measure(lambda stage, text: None, fragments=96, keep=tmp_path / "campaign")
    assert [row["way"] for row in found.rows] == list(WAYS)
    assert all(row["fragments"] == 96 and row["agrees"] > 48 for row in found.rows)
    assert found.conclusion.startswith("0 false alarms")

"""A script for each accusation: written, run again, kept over a second call."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from mindgap.operators.document import Answer
from mindgap.operators.observed import Grade, read_sweep
from mindgap.operators.proving import FILE, proofs, prove
from mindgap.operators.sweeping import sweep
from mindgap.report.operators import sections
from tests.campaign import herd
from tests.campaign.test_crowds import config


def test_a_program_that_is_not_there_is_counted_and_shown(tmp_path: Path) -> None:
    settings = config()
    assert sweep(tmp_path, ["herd"], [herd.WRONG], ["float32"], kinds=("ordinary",), config=settings).complete
    data = sqlite3.connect(tmp_path / "ledger.sqlite")
    data.executescript("UPDATE programs SET program = NULL; UPDATE programs SET recipe = '{}' WHERE 0;")
    data.close()
    found = read_sweep(tmp_path)
    (proof,) = prove(tmp_path, found, settings)
    assert not proof.tried and not proof.reproduces and not proof.script
    title = next(title for title, _, _ in sections(Answer(proofs=(proof,))))
    assert "1 could not be tried" in title


def test_a_wrong_cell_gets_a_script_that_shows_it(tmp_path: Path) -> None:
    pytest.importorskip("openvino")
    ops = ("aten.floor_divide.default", "aten.neg.default")
    assert sweep(tmp_path, ["openvino"], ops, ["int64"], kinds=("ordinary",)).complete
    found = read_sweep(tmp_path)
    wrong = [op for (_, op, _), cell in found.cells.items() if cell.grade is Grade.WRONG]
    assert wrong == ["aten.floor_divide.default"]
    (proof,) = prove(tmp_path, found)
    assert proof.reproduces and "DIFFERS" in proof.said and (tmp_path / proof.script).is_file()
    written = (tmp_path / FILE).stat().st_mtime_ns
    assert prove(tmp_path, found) == proofs(tmp_path) == [proof]
    assert (tmp_path / FILE).stat().st_mtime_ns == written

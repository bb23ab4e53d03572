"""A script for each accusation: written, run again, kept over a second call."""

from __future__ import annotations

from pathlib import Path

import pytest

from mindgap.operators.observed import Grade, read_sweep
from mindgap.operators.proving import FILE, proofs, prove
from mindgap.operators.sweeping import sweep


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

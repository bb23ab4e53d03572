"""A small calibration: silent where nothing is wrong, and faults of 16 floors are found."""

from __future__ import annotations

from mindgap.bench.calibration import measure
from mindgap.bench.small_programs import small_program
from tests.program.validating import validate


def test_small_programs_are_valid_and_repeatable() -> None:
    for seed in range(50):
        first, again = small_program(seed), small_program(seed)
        validate(first.program)
        assert first.program == again.program


def test_calibration() -> None:
    rows = measure(lambda who, what: None, programs=40, planted=20).rows
    by_what = {row["what"]: row for row in rows}
    assert all(row["diverges"] == 0 for row in rows if row["expected"] == "silent")
    assert by_what["faults of 16 floors"]["diverges"] == 20
    assert by_what["faults of 64 floors"]["diverges"] == 20

"""Lines that move while work is under way."""

from __future__ import annotations

import pytest

from mindgap.report import console
from mindgap.report.console import ProgressLine


def test_counted_work_has_a_time_left(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [100.0]
    monkeypatch.setattr(console.time, "monotonic", lambda: clock[0])
    progress = ProgressLine()
    shown = []
    for done in range(5):
        progress.count("pack", done, 4)
        shown.append(progress.line())
        clock[0] += 10.0
    assert shown == [
        "pack: 0 of 4",
        "pack: 1 of 4",
        "pack: 2 of 4, 20 s left",
        "pack: 3 of 4, 10 s left",
        "pack: 4 of 4",
    ]

"""What a log of a campaign shows while nothing moves."""

from __future__ import annotations

import pytest

from mindgap.campaign.progress import Snapshot
from mindgap.report import campaign_console
from mindgap.report.campaign_console import HuntProgress


def test_a_phase_that_takes_long_is_said_once_it_has_begun(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its text is the same from one second to the next, and must still reach the log."""
    clock: list[float] = [100.0]
    lines: list[str] = []
    monkeypatch.setattr(campaign_console.time, "monotonic", lambda: clock[0])
    progress = HuntProgress()
    monkeypatch.setattr(progress, "log", lines.append)
    running = Snapshot("run", 1.0, 5, 10, 1.0, None, {}, {})
    explaining = Snapshot("explain", 9.0, 10, 10, 1.0, None, {}, {})
    for now in [running, *[explaining] * 15]:
        progress(now)
        clock[0] += 1.0
    assert len(lines) == 2 and "5 of 10 variants" in lines[0] and "explaining findings" in lines[1]

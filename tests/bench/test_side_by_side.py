"""Rows of slow benchmarks end with the command."""

from __future__ import annotations

import os
import signal
import threading
from pathlib import Path

import pytest

from mindgap.bench.measurement import Row
from mindgap.bench.side_by_side import make_rows
from mindgap.session.session import Session


def test_nothing_is_begun_after_an_interruption(tmp_path: Path) -> None:
    begun, interrupted = [], threading.Event()

    def piece(session: Session) -> Row:
        begun.append(threading.current_thread())
        os.kill(os.getpid(), signal.SIGINT)
        assert interrupted.wait(60)
        return {"value": 1}

    with pytest.raises(KeyboardInterrupt):
        make_rows({str(number): piece for number in range(3)}, 1, tmp_path / "kept", lambda what: None)
    interrupted.set()
    begun[0].join(60)
    assert len(begun) == 1 and len((tmp_path / "kept").read_text().splitlines()) == 1

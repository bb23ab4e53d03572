"""Rows of slow benchmarks end with the command."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from pathlib import Path

import pytest

from mindgap.bench import side_by_side
from mindgap.bench.measurement import Row
from mindgap.session.session import Session


def test_nothing_is_begun_after_an_interruption(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    begun, interrupted = threading.Event(), threading.Event()
    threads = []

    def until_the_first_begins(jobs: int, work: Callable[[int], None], items: Sequence[int]) -> None:
        threads.append(threading.Thread(target=work, args=(0,)))
        threads[0].start()
        assert begun.wait(60)
        raise KeyboardInterrupt

    def piece(session: Session) -> Row:
        begun.set()
        assert interrupted.wait(60)
        return {"value": 1}

    monkeypatch.setattr(side_by_side, "in_parallel", until_the_first_begins)
    work = {str(number): piece for number in range(3)}
    with pytest.raises(KeyboardInterrupt):
        side_by_side.make_rows(work, 1, tmp_path / "kept", lambda what: None, session_of=nullcontext)  # type: ignore[arg-type]
    interrupted.set()
    threads[0].join(60)
    assert len((tmp_path / "kept").read_text().splitlines()) == 1

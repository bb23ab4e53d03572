"""Rows of a slow benchmark: several are made at once, and each is kept as soon as it is done."""

from __future__ import annotations

import json
import queue
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from mindgap.bench.measurement import Row
from mindgap.errors import MindgapError
from mindgap.execution.pool import in_parallel
from mindgap.session.session import Session


def make_rows(
    work: Mapping[str, Callable[[Session], Row]],
    jobs: int,
    kept: Path | None,
    tell: Callable[[str], None],
    until: float = float("inf"),
    session_of: Callable[[], Session] = Session,
) -> list[Row]:
    """One row per piece of work, in its order, `jobs` at once with workers of their own; each has its work's name.

    Rows that the file holds are not made again; new ones are added to it as soon as they are done. None is begun
    `until` the monotonic clock is past: what is left is missing from the result. Nor is one after Ctrl-C.
    """
    lines = kept.read_text().splitlines() if kept is not None and kept.exists() else []
    rows: dict[str, Row] = {row["name"]: row for row in map(json.loads, lines)}
    waiting: queue.SimpleQueue[str] = queue.SimpleQueue()
    for name in work:
        if name not in rows:
            waiting.put(name)
    lock, stopped = threading.Lock(), threading.Event()

    def go_on(_: int) -> None:
        with session_of() as session:
            while not stopped.is_set() and time.monotonic() < until:
                try:
                    name = waiting.get_nowait()
                except queue.Empty:
                    return
                tell(f"{name} ({sum(name in rows for name in work)} of {len(work)} done)")
                row = {"name": name, **work[name](session)}
                with lock:
                    rows[name] = row
                    if kept is not None:
                        with kept.open("a") as file:
                            file.write(json.dumps(row) + "\n")

    try:
        in_parallel(jobs, go_on, range(jobs))
    finally:
        stopped.set()
    return [rows[name] for name in work if name in rows]


def problem_of(error: Exception) -> str:
    """What went wrong, for a row: a bug of ours is a row too, and the others still count."""
    text = str(error) if isinstance(error, MindgapError) else f"bug: {type(error).__name__}: {error}"
    return text.replace("\n", " ")

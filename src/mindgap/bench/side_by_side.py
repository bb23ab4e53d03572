"""Rows of a slow benchmark, made side by side and kept as soon as they are there."""

from __future__ import annotations

import json
import queue
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from mindgap.execution.pool import in_parallel
from mindgap.session.session import Session

Row = dict[str, Any]


def make_rows(
    work: Mapping[str, Callable[[Session], Row]], jobs: int, kept: Path | None, tell: Callable[[str], None]
) -> list[Row]:
    """One row for each piece of work, in its order, `jobs` at a time with workers of their own.

    Rows that the file holds are not made again; new ones are added to it at once.
    """
    rows = _read(kept)
    waiting: queue.SimpleQueue[str] = queue.SimpleQueue()
    for name in work:
        if name not in rows:
            waiting.put(name)
    lock = threading.Lock()

    def go_on(_: int) -> None:
        with Session() as session:
            while True:
                try:
                    name = waiting.get_nowait()
                except queue.Empty:
                    return
                tell(f"{name} ({sum(name in rows for name in work)} of {len(work)} done)")
                row = work[name](session)
                with lock:
                    rows[name] = row
                    if kept is not None:
                        with kept.open("a") as file:
                            file.write(json.dumps({"name": name, **row}) + "\n")

    in_parallel(jobs, go_on, range(jobs))
    return [rows[name] for name in work]


def _read(kept: Path | None) -> dict[str, Row]:
    if kept is None or not kept.exists():
        return {}
    rows = [json.loads(line) for line in kept.read_text().splitlines()]
    return {row["name"]: row for row in rows}

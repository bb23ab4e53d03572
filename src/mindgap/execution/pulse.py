"""Whether a worker that says nothing still computes: one that sleeps for minutes has hung."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

from mindgap.execution.frames import Silence
from mindgap.records.platform import Limits

NO_ANSWER: Final = "no answer within"
"""So a message begins when the time by the clock is over, which a busy machine can do to anybody."""
WAKE_S: Final = 1.0
ASLEEP: Final = 1e-3
"""Of one core: pollers in the background use less, the slowest download and a process that swaps use more."""


def await_message(descriptor: int, guardian: int, limits: Limits, deadline: float, gone: Callable[[], bool]) -> bool:
    """Whether there is something to read; no when the guardian has gone and somebody else holds the pipe.

    Raises `Silence` at the deadline, or when the processes sleep.
    """
    window = limits.idle_s / 2
    before: float | None = None
    looked = time.monotonic()
    while True:
        left = deadline - time.monotonic()
        ready, _, _ = select.select([descriptor], [], [], max(0.0, min(window, left, WAKE_S)))
        if ready:
            return True
        if gone():
            return False
        if left <= min(window, WAKE_S):
            raise Silence(f"{NO_ANSWER} {limits.wall_s:g} s")
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(guardian, signal.SIGCONT)  # somebody may have stopped it; it wakes its worker
        if time.monotonic() - looked < window:
            continue
        looked = time.monotonic()
        now = cpu_seconds(lambda process, parent, session: session == guardian != process)
        if now is not None and before is not None and 0 <= now - before < ASLEEP * window:  # less: somebody ended
            raise Silence(f"it hangs: no answer, and nothing computed within {limits.idle_s:g} s")
        before = now


def cpu_seconds(belongs: Callable[[int, int, int], bool]) -> float | None:
    """CPU time so far of the processes that belong, told by id, parent and session, and of children of theirs that
    have ended: a compiler is a new process for every kernel. None where nobody says."""
    if not Path("/proc/self/stat").exists():  # not Linux
        return None
    ticks = 0
    for path in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):  # it may have ended meanwhile
            fields = path.read_text().rpartition(")")[2].split()
            if belongs(int(path.parent.name), int(fields[1]), int(fields[3])):
                ticks += sum(map(int, fields[11:15]))
    return ticks / os.sysconf("SC_CLK_TCK")

"""The process between a worker and its parent: keeps its log, holds it to its limits, and ends all that it started.

It has no torch and runs nothing of a model. What a worker starts becomes the guardian's own when its parent process
ends (a subreaper, on Linux), so that nothing escapes into a session of its own.
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import os
import resource
import select
import signal
import stat
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NoReturn

from mindgap.execution.ring import Ring
from mindgap.execution.trees import bytes_below, remove_tree

PERIOD_S: Final = 0.25
"""Between two looks at memory and files: what can be written meanwhile is what a limit may be passed by."""
_LEISURE: Final = 20
"""Looking at thousands of files may take a twentieth of a core, no more, ..."""
_LONGEST_S: Final = 1.0
"""... as long as they are looked at every second."""
GRACE_S: Final = 5.0  # time to finish an atexit handler after the parent has gone
ENDING_S: Final = 10.0  # time for killed processes to go away
MOST_PROCESSES: Final = 512
"""Of one worker: a compiler starts a handful, a loader of data one per core."""
QUIET_BYTES: Final = 4 << 20
"""A worker that prints more between two looks is slowed down, so that its log costs little."""

_SET_PARENT_DEATH_SIGNAL: Final = 1
_SET_CHILD_SUBREAPER: Final = 36


@dataclass(frozen=True, slots=True)
class Orders:
    """What a guardian is told about its worker."""

    memory_mb: int
    files_mb: int
    temporary: str
    """The directory for temporary files, removed at the end."""
    room: str
    """The directory for what the worker hands over."""


def adopt() -> None:
    """Become the parent of all processes below whose own parent ends, where the system offers it.

    When our own parent ends we are woken: somebody may have stopped us, and nobody else is left to notice.
    """
    _prctl(_SET_CHILD_SUBREAPER, 1)
    _prctl(_SET_PARENT_DEATH_SIGNAL, signal.SIGCONT)


def die_with(guardian: int) -> None:
    """End this process when its guardian ends, where the system offers it."""
    _prctl(_SET_PARENT_DEATH_SIGNAL, signal.SIGKILL)
    if os.getppid() != guardian:  # it ended before we could say so
        os._exit(1)


def _prctl(option: int, value: int) -> None:
    with contextlib.suppress(AttributeError, OSError):  # not Linux
        ctypes.CDLL(None).prctl(option, ctypes.c_ulong(value), 0, 0, 0)


class Guardian:
    """Watches one worker until it ends, then ends itself the same way."""

    def __init__(self, worker: int, requests: int, log: int, ring: Ring, orders: Orders) -> None:
        self._worker = worker
        self._requests = requests
        self._log = log
        self._ring = ring
        self._orders = orders
        self._status: int | None = None
        self._leaving = False
        self._chatter = 0
        self._next_count = 0.0
        """When files are looked at again."""
        fcntl.fcntl(log, fcntl.F_SETFL, fcntl.fcntl(log, fcntl.F_GETFL) | os.O_NONBLOCK)
        self._woken, wake = os.pipe()
        os.set_blocking(self._woken, False)
        os.set_blocking(wake, False)
        signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda number, frame: None)
        signal.signal(signal.SIGTERM, self._leave)
        signal.signal(signal.SIGINT, signal.SIG_IGN)

    def watch(self) -> NoReturn:
        """Return never: the process ends as its worker did."""
        waiting = select.poll()
        waiting.register(self._log, select.POLLIN)
        waiting.register(self._woken, select.POLLIN)
        waiting.register(self._requests, 0)  # only POLLHUP: the parent closed its end, or died
        last_look = time.monotonic()
        deadline = float("inf")
        self._reap()
        while self._status is None and not self._leaving:
            for descriptor, _ in waiting.poll(1000 * PERIOD_S):
                if descriptor == self._log:
                    self._keep_log()
                elif descriptor == self._woken:
                    with contextlib.suppress(BlockingIOError):
                        os.read(self._woken, 4096)
                    self._reap()
                else:
                    waiting.unregister(self._requests)
                    deadline = time.monotonic() + GRACE_S
            now = time.monotonic()
            if now >= deadline:
                break
            if now - last_look >= PERIOD_S and self._status is None:
                last_look = now
                self._chatter = 0
                self._look()
        self._end_all()
        while self._ring.take(self._log):
            pass
        if deadline < float("inf"):  # nobody else is left to do it
            remove_tree(Path(self._orders.temporary))
        _end_like(self._status)

    def _leave(self, number: int, frame: object) -> None:
        self._leaving = True

    def _keep_log(self) -> None:
        self._chatter += self._ring.take(self._log)
        if self._chatter > QUIET_BYTES:
            time.sleep(0.01)

    def _reap(self) -> bool:
        """Take leave of processes that ended; whether any are left."""
        while True:
            try:
                process, status = os.waitpid(-1, os.WNOHANG | os.WUNTRACED)
            except ChildProcessError:
                return False
            if process == 0:
                return True
            if os.WIFSTOPPED(status):  # nobody has a reason to stop a worker
                with contextlib.suppress(ProcessLookupError):
                    os.kill(process, signal.SIGCONT)
            elif process == self._worker:
                self._status = status

    def _look(self) -> None:
        """End a worker that holds more than it may, together with all that it started."""
        family = descendants(os.getpid(), MOST_PROCESSES)
        memory = self._orders.memory_mb << 20
        if len(family) > MOST_PROCESSES:
            self._stop("crash", f"it started more than {MOST_PROCESSES} processes")
        elif sum(map(_private_bytes, family)) > memory and sum(map(_fair_bytes, family)) > memory:
            self._stop("oom", f"it used more than {self._orders.memory_mb} MB of memory, with all that it started")
        elif time.monotonic() >= self._next_count and self._file_bytes(family) > self._orders.files_mb << 20:
            self._stop("oom", f"it filled more than {self._orders.files_mb} MB of files and shared memory")

    def _file_bytes(self, family: Sequence[int]) -> int:
        start = time.monotonic()
        nameless = sum(_nameless_files(family).values())
        found = bytes_below(self._orders.temporary) + bytes_below(self._orders.room) + nameless
        now = time.monotonic()
        self._next_count = now + min(_LONGEST_S, _LEISURE * (now - start))
        return found

    def _stop(self, status: str, message: str) -> None:
        self._ring.end(status, message)
        self._leaving = True

    def _end_all(self) -> None:
        """Kill until nobody is left; a group is killed at once, so that no process can start another meanwhile."""
        deadline = time.monotonic() + ENDING_S
        while True:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self._worker, signal.SIGKILL)
            for process in descendants(os.getpid(), 1 << 16):
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.kill(process, signal.SIGKILL)
            if not self._reap():
                self._ring.be_alone()
                return
            if time.monotonic() > deadline:
                return
            time.sleep(0.002)


def descendants(process: int, most: int) -> list[int]:
    """Processes below one; no more than `most` and one."""
    found: list[int] = []
    waiting = [process]
    while waiting and len(found) <= most:
        below = _children(waiting.pop())
        found += below
        waiting += below
    return found[: most + 1]


def _children(process: int) -> list[int]:
    found: list[int] = []
    with contextlib.suppress(OSError):
        for thread in Path(f"/proc/{process}/task").iterdir():
            with contextlib.suppress(OSError):
                found += map(int, (thread / "children").read_bytes().split())
    return found


def _private_bytes(process: int) -> int:
    """Memory of a process that is no file's; what it shares with its parent since a fork is counted too."""
    return _kilobytes(f"/proc/{process}/status", (b"RssAnon:", b"VmSwap:"))


def _fair_bytes(process: int) -> int:
    """The same with shared memory divided among those who share it: exact, and slow to ask for."""
    return _kilobytes(f"/proc/{process}/smaps_rollup", (b"Pss_Anon:", b"SwapPss:"))


def _kilobytes(path: str, names: tuple[bytes, ...]) -> int:
    total = 0
    with contextlib.suppress(OSError, ValueError):
        for line in Path(path).read_bytes().splitlines():
            if line.startswith(names):
                total += int(line.split()[1]) << 10
    return total


def _nameless_files(family: Sequence[int]) -> dict[tuple[int, int], int]:
    """Bytes of open files that no directory names: deleted ones, and shared memory without a name."""
    found: dict[tuple[int, int], int] = {}
    for process in family:
        with contextlib.suppress(OSError):
            for descriptor in Path(f"/proc/{process}/fd").iterdir():
                with contextlib.suppress(OSError):
                    held = descriptor.stat()
                    if held.st_nlink == 0 and stat.S_ISREG(held.st_mode):
                        found[held.st_dev, held.st_ino] = held.st_blocks * 512
    return found


def _end_like(status: int | None) -> NoReturn:
    """End this process as the worker ended, so that the parent sees one process."""
    with contextlib.suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if status is not None and os.WIFEXITED(status):
        os._exit(os.WEXITSTATUS(status))
    number = signal.SIGKILL if status is None else os.WTERMSIG(status)
    with contextlib.suppress(OSError, ValueError):
        signal.signal(number, signal.SIG_DFL)
    signal.set_wakeup_fd(-1)
    os.kill(os.getpid(), number)
    os._exit(1)

"""Work that may end the process: a copy of it does that, and what is prepared stays."""

from __future__ import annotations

import contextlib
import mmap
import os
import resource
import signal
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, TypeVar

import msgspec

from mindgap.errors import NoSpace
from mindgap.execution.pool import KILLED_TRIES
from mindgap.execution.process import OUTSIDE, cause_of_kill, killed_by, oom_kills
from mindgap.records.outcome import Outcome, Stage, Status

T = TypeVar("T")

_FULL: Final = b"\xc1"
"""What no message of msgpack begins with: the copy found no room to write."""
MOST_CPU_S: Final = 120.0
"""For some small programs, compiled and run."""
ONE_CPU_S: Final = 30.0
"""For one of them: no less than where each is prepared alone (`campaign.crowds.FRAGMENT_S`)."""


@dataclass(frozen=True, slots=True)
class Ended:
    """How a copy ended before it answered."""

    status: Status
    message: str
    outside: bool = False
    """Whether somebody else may have ended it."""

    def outcome(self, platform: str, stage: Stage = Stage.RUN) -> Outcome:
        return Outcome(platform, self.status, stage, self.message)


class SharedStage:
    """The stage that a copy has reached, in memory that outlives it."""

    def __init__(self, tell: Callable[[Stage], None]) -> None:
        self._tell = tell
        self._page = mmap.mmap(-1, mmap.PAGESIZE)

    def enter(self, stage: Stage) -> None:
        self._page[0] = list(Stage).index(stage)
        self._tell(stage)

    @property
    def current(self) -> Stage:
        return list(Stage)[self._page[0]]


def answer_of_copy(work: Callable[[], T], kind: type[T], cpu_s: float = MOST_CPU_S) -> T | Ended:
    """What `work` gives in a copy of this process, or how the copy ended; a full disk is raised here.

    A copy has none of the threads of this process: only for work that needs one. One that somebody else ended is
    followed by another.
    """
    for _ in range(KILLED_TRIES):
        found = _asked_once(work, kind, cpu_s)
        if not (isinstance(found, Ended) and found.outside):
            return found
    assert isinstance(found, Ended)
    return Ended(found.status, f"{found.message}; {KILLED_TRIES} copies in a row ended like this", outside=True)


def _asked_once(work: Callable[[], T], kind: type[T], cpu_s: float) -> T | Ended:
    kills = oom_kills()
    reader, writer = os.pipe()
    copy = os.fork()
    if not copy:
        with contextlib.suppress(BaseException):  # whatever happens, the copy ends here and does nothing else
            os.close(reader)
            used = sum(resource.getrusage(resource.RUSAGE_SELF)[:2])
            _, hard = resource.getrlimit(resource.RLIMIT_CPU)
            limit = int(used + cpu_s) + 1
            resource.setrlimit(resource.RLIMIT_CPU, (limit if hard == -1 else min(limit, hard), hard))
            with os.fdopen(writer, "wb") as pipe:
                try:
                    pipe.write(msgspec.msgpack.encode(work()))
                except NoSpace as error:
                    pipe.write(_FULL + str(error.what).encode())
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader, "rb") as pipe:
        answer = pipe.read()
    _, status = os.waitpid(copy, 0)
    if answer.startswith(_FULL) and not status:
        raise NoSpace(answer.removeprefix(_FULL).decode(), hint="free some space")
    if answer and not status:
        return msgspec.msgpack.decode(answer, type=kind)
    return _ended(os.waitstatus_to_exitcode(status), cpu_s, kills)


def _ended(code: int, cpu_s: float, kills: int | None) -> Ended:
    """How a copy ended, by its exit code and the kernel's count of out-of-memory kills before."""
    if code == -signal.SIGXCPU:
        return Ended(Status.TIMEOUT, f"used more than {cpu_s:g} s of CPU time")
    if code == -signal.SIGKILL:
        return Ended(*cause_of_kill(kills, oom_kills()), outside=True)
    if code < 0:
        return Ended(Status.CRASH, killed_by(-code), outside=code in OUTSIDE)
    return Ended(Status.CRASH, "the process ended by itself before it answered")

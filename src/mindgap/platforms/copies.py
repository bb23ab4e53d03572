"""Work that may end the process: a copy of it does that, and what is prepared stays."""

from __future__ import annotations

import contextlib
import os
import resource
import signal
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, TypeVar

import msgspec

from mindgap.errors import NoSpace
from mindgap.execution.process import killed_by
from mindgap.records.outcome import Outcome, Stage, Status

T = TypeVar("T")

_FULL: Final = b"\xc1"
"""What no message of msgpack begins with: the copy found no room to write."""
MOST_CPU_S: Final = 120
"""For some small programs, compiled and run."""


@dataclass(frozen=True, slots=True)
class Ended:
    """How a copy ended before it answered."""

    status: Status
    message: str

    def outcome(self, platform: str) -> Outcome:
        return Outcome(platform, self.status, Stage.RUN, self.message)


def answer_of_copy(work: Callable[[], T], kind: type[T]) -> T | Ended:
    """What `work` gives in a copy of this process, or how the copy ended; a full disk is raised here.

    A copy has none of the threads of this process: only for work that needs one.
    """
    reader, writer = os.pipe()
    copy = os.fork()
    if not copy:
        with contextlib.suppress(BaseException):  # whatever happens, the copy ends here and does nothing else
            os.close(reader)
            used = sum(resource.getrusage(resource.RUSAGE_SELF)[:2])
            _, hard = resource.getrlimit(resource.RLIMIT_CPU)
            limit = int(used) + MOST_CPU_S
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
    code = os.waitstatus_to_exitcode(status)
    if code == -signal.SIGXCPU:
        return Ended(Status.TIMEOUT, f"used more than {MOST_CPU_S} s of CPU time")
    return Ended(Status.CRASH, killed_by(-code) if code < 0 else "the process ended by itself before it answered")

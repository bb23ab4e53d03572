"""Runs that may end the process: a copy of it makes them, and what is prepared stays."""

from __future__ import annotations

import contextlib
import os
import resource
import signal
from collections.abc import Callable
from typing import Final

import msgspec

from mindgap.execution.process import killed_by
from mindgap.records.outcome import Outcome, Stage, Status

MOST_CPU_S: Final = 60
"""For one small program, compiled or run."""


def outcome_of_copy(platform: str, run: Callable[[], Outcome]) -> Outcome:
    """What `run` gives in a copy of this process; a crash where the copy ends before it answers.

    A copy has none of the threads of this process: only for code that runs in one.
    """
    reader, writer = os.pipe()
    copy = os.fork()
    if not copy:
        with contextlib.suppress(BaseException):  # whatever happens, the copy ends here and runs nothing else
            os.close(reader)
            used = sum(resource.getrusage(resource.RUSAGE_SELF)[:2])
            _, hard = resource.getrlimit(resource.RLIMIT_CPU)
            limit = int(used) + MOST_CPU_S
            resource.setrlimit(resource.RLIMIT_CPU, (limit if hard == -1 else min(limit, hard), hard))
            with os.fdopen(writer, "wb") as pipe:
                pipe.write(msgspec.msgpack.encode(run()))
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader, "rb") as pipe:
        answer = pipe.read()
    _, status = os.waitpid(copy, 0)
    if answer and not status:
        return msgspec.msgpack.decode(answer, type=Outcome)
    code = os.waitstatus_to_exitcode(status)
    if code == -signal.SIGXCPU:
        return Outcome(platform, Status.TIMEOUT, Stage.RUN, f"used more than {MOST_CPU_S} s of CPU time")
    told = killed_by(-code) if code < 0 else "the process ended by itself before it answered"
    return Outcome(platform, Status.CRASH, Stage.RUN, told)

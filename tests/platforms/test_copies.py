"""A copy of the process answers, ends by itself, or finds no room; this process goes on."""

from __future__ import annotations

import os
import signal

import pytest

from mindgap.errors import NoSpace
from mindgap.platforms.copies import Ended, answer_of_copy
from mindgap.records.outcome import Outcome, Stage, Status


def test_its_answer_is_this_process_own() -> None:
    expected = Outcome("toy", Status.REJECTED, Stage.RUN, "seven is refused")
    assert answer_of_copy(lambda: expected, Outcome) == expected


def test_how_it_ended_is_told() -> None:
    def die() -> int:
        os.kill(os.getpid(), signal.SIGFPE)
        return 0

    assert answer_of_copy(die, int) == Ended(Status.CRASH, "killed by SIGFPE (arithmetic trap)")
    assert answer_of_copy(lambda: os._exit(3), int) == Ended(  # type: ignore[arg-type]
        Status.CRASH, "the process ended by itself before it answered"
    )


def test_a_full_disk_is_nobody_s_failure() -> None:
    def write() -> int:
        raise NoSpace("no space left for the files of workers")

    with pytest.raises(NoSpace, match="no space left for the files of workers"):
        answer_of_copy(write, int)

"""A copy of the process answers, ends by itself, or finds no room; this process goes on."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from mindgap.errors import NoSpace
from mindgap.platforms.copies import Ended, SharedStage, answer_of_copy
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


def test_one_that_somebody_else_killed_is_followed_by_another(tmp_path: Path) -> None:
    """A signal that no program sends to itself says nothing about what it did; some in a row do."""

    def killed(times: int) -> int:
        count = len(list(tmp_path.iterdir()))
        if count < times:
            (tmp_path / str(count)).touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return count

    assert answer_of_copy(lambda: killed(2), int) == 2
    found = answer_of_copy(lambda: killed(99), int)
    assert isinstance(found, Ended) and found.outside
    assert "SIGKILL" in found.message and "4 copies in a row" in found.message


def test_the_time_that_it_had_and_the_stage_that_it_reached_are_told() -> None:
    told: list[Stage] = []
    reached = SharedStage(told.append)

    def hang() -> int:
        reached.enter(Stage.COMPILE)
        while True:
            pass

    found = answer_of_copy(hang, int, cpu_s=0.5)
    assert found == Ended(Status.TIMEOUT, "used more than 0.5 s of CPU time")
    assert reached.current is Stage.COMPILE and not told, "what it told, it told in the copy"


def test_a_full_disk_is_nobody_s_failure() -> None:
    def write() -> int:
        raise NoSpace("no space left for the files of workers")

    with pytest.raises(NoSpace, match="no space left for the files of workers"):
        answer_of_copy(write, int)

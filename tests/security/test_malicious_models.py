"""A model can do what it likes inside its worker: outside, memory, disk and processes stay within their bounds."""

from __future__ import annotations

import ast
import contextlib
import os
import re
import signal
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from mindgap.errors import MindgapError
from mindgap.execution import isolation
from mindgap.execution.frames import Ask
from mindgap.execution.guardian import descendants
from mindgap.execution.pool import HOST, Pool
from mindgap.execution.process import Death
from mindgap.records.outcome import Status
from mindgap.records.platform import Limits, PlatformSpec
from tests.security.misdeeds import FORGERIES, forge, forge_many, misbehave

ROOT = Path(__file__).resolve().parents[2]
SLACK_MB = 400
"""What may be passed between two looks of a guardian on a loaded machine."""

pytestmark = pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="limits of many processes need Linux")


def hostile(**limits: Any) -> PlatformSpec:
    return replace(HOST, name="hostile", env={"PYTHONPATH": str(ROOT)}, limits=Limits(**limits))


@pytest.fixture(scope="module")
def pool() -> Iterator[Pool]:
    with Pool() as pool:
        yield pool


class Watch:
    """The most that a pool's processes and files held while something ran, seen from outside."""

    def __init__(self, pool: Pool) -> None:
        self.files_mb = self.memory_mb = self.processes = 0
        self._pool = pool
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)

    def __enter__(self) -> Watch:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._done.set()
        self._thread.join()

    def _look(self) -> None:
        while not self._done.wait(0.05):
            family = processes_of(self._pool)
            folders = (self._pool.scratch.path, self._pool.scratch._temporary.path)
            files = sum(_size(path) for folder in folders for path in folder.rglob("*"))
            memory = sum(_resident(process) for process in family)
            self.files_mb = max(self.files_mb, files >> 20)
            self.memory_mb = max(self.memory_mb, memory >> 20)
            self.processes = max(self.processes, len(family))


def _size(path: Path) -> int:
    try:
        return path.lstat().st_blocks * 512
    except OSError:
        return 0


def _resident(process: int) -> int:
    try:
        text = Path(f"/proc/{process}/smaps_rollup").read_text()
    except OSError:
        return 0
    return sum(int(kb) << 10 for kb in re.findall(r"^Pss_(?:Anon|Shmem):\s+(\d+)", text, re.MULTILINE))


def processes_of(pool: Pool) -> set[int]:
    """What a pool's workers started and is alive, told by their temporary directories.

    Not by parents: tests that ran before in this process may have left services that start processes when they like.
    """
    mine = b"TMPDIR=" + os.fsencode(pool.scratch._temporary.path)
    found = set()
    for path in Path("/proc").glob("[0-9]*/environ"):
        with contextlib.suppress(OSError):  # gone meanwhile
            if mine in path.read_bytes():
                found.add(int(path.parent.name))
    return found


def alive(process: int) -> bool:
    try:
        return " Z " not in Path(f"/proc/{process}/stat").read_text()
    except OSError:
        return False


def test_a_model_that_prints_without_end_fills_nothing(pool: Pool) -> None:
    pool.retire(hostile())
    with Watch(pool) as seen:
        death = pool.ask(hostile(wall_s=3), misbehave, "chatter")
    assert isinstance(death, Death) and death.status is Status.TIMEOUT
    assert len(death.log_tail) <= 4096 and set(death.log_tail) == {"x"}
    assert seen.files_mb < 8


def test_processes_are_limited_together(pool: Pool) -> None:
    pool.retire(hostile())
    before = processes_of(pool)
    with Watch(pool) as seen:
        death = pool.ask(hostile(), misbehave, "fork_many")
    assert isinstance(death, Death) and "more than 512 processes" in death.message
    assert seen.processes < 2000 and processes_of(pool) <= before


def test_memory_is_limited_together(pool: Pool) -> None:
    pool.retire(hostile())
    with Watch(pool) as seen:
        death = pool.ask(hostile(memory_mb=2048), misbehave, "allocate_in_children")
    assert isinstance(death, Death) and death.status is Status.OOM and "2048 MB of memory" in death.message
    assert seen.memory_mb < 2048 + 2 * SLACK_MB


@pytest.mark.parametrize("how", ["fill_nameless_memory", "fill_temporary_files"])
def test_files_and_shared_memory_are_limited(pool: Pool, how: str) -> None:
    pool.retire(hostile())
    with Watch(pool) as seen:
        death = pool.ask(hostile(files_mb=100), misbehave, how)
    assert isinstance(death, Death) and death.status is Status.OOM and "100 MB of files" in death.message
    assert seen.files_mb < 100 + SLACK_MB
    assert not list(pool.scratch._temporary.path.glob("worker-*"))


def test_one_file_is_limited_exactly(pool: Pool) -> None:
    pool.retire(hostile())
    with Watch(pool) as seen:
        answer = pool.ask(hostile(files_mb=64), misbehave, "write_one_large_file")
    assert not isinstance(answer, Death) and "large" in answer
    assert seen.files_mb <= 66


def test_a_daemon_ends_with_its_worker(pool: Pool) -> None:
    daemon = pool.ask(hostile(), misbehave, "daemonise")
    assert not isinstance(daemon, Death) and alive(int(daemon))
    pool.retire(hostile())
    assert not alive(int(daemon))


def test_a_daemon_ends_even_when_the_guardian_is_killed(pool: Pool) -> None:
    pool.retire(hostile())
    request = Ask(misbehave.name, misbehave.encode("kill_the_guardian"))
    death = pool._exchange(hostile(), request, None, lambda result: None)
    assert isinstance(death, Death) and death.outside
    daemon = int(re.findall(r"daemon (\d+)", death.log_tail)[0])
    deadline = time.monotonic() + 5
    while alive(daemon) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not alive(daemon)


@pytest.mark.parametrize(("how", "status"), [("close_everything", Status.CRASH), ("ignore_signals", Status.TIMEOUT)])
def test_a_worker_that_cannot_be_reached_is_ended(pool: Pool, how: str, status: Status) -> None:
    pool.retire(hostile())
    before = processes_of(pool)
    death = pool.ask(hostile(wall_s=3), misbehave, how)
    assert isinstance(death, Death) and death.status is status
    assert processes_of(pool) <= before


def test_whatever_was_left_in_temporary_files_goes(pool: Pool) -> None:
    top = pool.ask(hostile(), misbehave, "leave_a_maze")
    assert not isinstance(top, Death) and Path(top).is_dir()
    pool.retire(hostile())
    assert not Path(top).exists()


def test_workers_without_a_platform_keep_the_limits_of_the_configuration() -> None:
    with Pool(limits=Limits(cpu_s=1)) as pool:
        death = pool.ask(replace(HOST, env={"PYTHONPATH": str(ROOT)}), misbehave, "use_the_processor")
    assert isinstance(death, Death) and death.message == "used more than 1 s of CPU time"


@pytest.mark.parametrize("name", sorted(FORGERIES))
def test_a_forged_answer_is_an_outcome(pool: Pool, name: str) -> None:
    try:
        answer = pool.ask(hostile(), forge, name)
    except MindgapError as error:
        assert error.what == "what"
    else:
        assert isinstance(answer, Death) or answer == "forged"
    assert "site-packages" in str(pool.ask(hostile(), misbehave, "look_around"))  # whoever asks next is answered


def test_more_results_than_were_asked_for_are_not_believed(pool: Pool) -> None:
    found: list[str] = []
    death = pool.ask(hostile(), forge_many, 10, on_item=found.append, count=2)
    assert isinstance(death, Death) and death.status is Status.CRASH and len(found) == 2


@pytest.mark.parametrize("whom", ["worker", "guardian"])
def test_a_worker_that_somebody_stops_goes_on(pool: Pool, whom: str) -> None:
    pool.ask(hostile(), misbehave, "look_around")
    guardian = pool._workers["hostile"]._process.pid
    os.kill(guardian if whom == "guardian" else descendants(guardian, 10)[0], signal.SIGSTOP)
    assert "site-packages" in str(pool.ask(hostile(), misbehave, "look_around"))


@pytest.mark.skipif(bool(isolation.why_not()), reason=isolation.why_not())
def test_an_isolated_worker_writes_nowhere_else_and_has_no_network(tmp_path: Path) -> None:
    (tmp_path / "old").write_text("old")
    env = {"PYTHONPATH": str(ROOT), "FORBIDDEN": str(tmp_path), "VICTIM": str(os.getpid())}
    spec = replace(HOST, env=env)
    with Pool(isolated=True) as pool:
        assert pool.ask(spec, misbehave, "write_elsewhere") == ""
        temporary = ast.literal_eval(str(pool.ask(spec, misbehave, "look_around")))[1]
        assert Path(temporary).parent == pool.scratch._temporary.path
    assert [path.name for path in tmp_path.iterdir()] == ["old"] and (tmp_path / "old").read_text() == "old"
    assert not Path("/dev/shm/mindgap-test-escape").exists()

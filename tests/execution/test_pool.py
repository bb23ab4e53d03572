"""Whatever a platform does to its process is an outcome, and the next program is unaffected."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from mindgap.errors import PlatformUnavailable
from mindgap.execution.arena import opened
from mindgap.execution.guardian import descendants
from mindgap.execution.parcel import Parcel, make_parcel
from mindgap.execution.pool import Pool
from mindgap.execution.process import cause_of_kill, oom_kills
from mindgap.platforms import running
from mindgap.platforms.probing import require
from mindgap.program.case import Case
from mindgap.program.graph import Input, Node, Program, Ref
from mindgap.program.inputs import Inputs
from mindgap.records.outcome import Outcome, Stage, Status
from mindgap.records.platform import Limits, PlatformSpec
from mindgap.records.tensors import TensorMeta
from tests.execution.planted import killed_once

ROOT = Path(__file__).resolve().parents[2]
META = TensorMeta((4,), "float32", (1,))
EAGER = PlatformSpec("eager", "mindgap.platforms.torch.eager:Eager")


def planted(**limits: float) -> PlatformSpec:
    return PlatformSpec(
        "planted",
        "tests.execution.planted:Planted",
        env={"PYTHONPATH": str(ROOT)},
        limits=Limits(**limits),  # type: ignore[arg-type]
    )


def subject(pool: Pool, name: str) -> Parcel:
    program = Program(name, (Input(0, "x", META),), (), (Node(1, "aten.mul.Tensor", (Ref(0), 2), {}, META),), Ref(1))
    inputs = Inputs.of((torch.arange(4.0),), {})
    return make_parcel(Case(inputs, program, name=name), pool.scratch.new_file("case"))


def run(pool: Pool, spec: PlatformSpec, parcel: Parcel) -> Outcome:
    return opened(running.run(pool, spec, parcel, runs=2))


@pytest.fixture(scope="module")
def pool() -> Iterator[Pool]:
    with Pool() as pool:
        yield pool


def assert_healthy(pool: Pool, spec: PlatformSpec) -> None:
    outcome = run(pool, spec, subject(pool, "healthy"))
    assert outcome.ok, outcome
    assert torch.equal(outcome.outputs[0].tensor, torch.arange(4.0) * 2)
    assert outcome.stable is True


@pytest.mark.parametrize(
    ("how", "status", "words"),
    [
        ("segfault", Status.CRASH, "SIGSEGV"),
        ("abort", Status.CRASH, "SIGABRT"),
        ("trap", Status.CRASH, "SIGFPE"),
        ("leave", Status.CRASH, "exit code 7: the runtime gave up"),
        ("half", Status.CRASH, "half-written answer"),
        ("garbage", Status.CRASH, "half-written answer"),
        ("raise", Status.REJECTED, "expected a positive number"),
    ],
)
def test_a_failure_is_an_outcome_and_the_next_program_runs(pool: Pool, how: str, status: Status, words: str) -> None:
    outcome = run(pool, planted(), subject(pool, how))
    assert outcome.status is status, outcome
    assert outcome.stage is Stage.RUN
    assert words in outcome.message
    assert_healthy(pool, planted())


def test_a_crash_carries_its_stage_and_the_log(pool: Pool) -> None:
    outcome = run(pool, planted(), subject(pool, "compile-crash"))
    assert (outcome.status, outcome.stage) == (Status.CRASH, Stage.COMPILE)
    assert "Fatal Python error: Aborted" in outcome.log_tail


def test_cpu_time_is_limited(pool: Pool) -> None:
    spec = replace(planted(cpu_s=1), name="busy")
    outcome = run(pool, spec, subject(pool, "compute"))
    assert outcome.status is Status.TIMEOUT, outcome
    assert "1 s of CPU time" in outcome.message


@pytest.mark.parametrize("how", ["sleep", "hold"])
def test_wall_time_is_limited(how: str) -> None:
    with Pool() as pool:
        assert_healthy(pool, planted())  # started before the clock runs
        spec = planted(wall_s=1)
        worker = pool._workers["planted"]
        worker.spec = spec
        outcome = run(pool, spec, subject(pool, how))
        assert outcome.status is Status.TIMEOUT, outcome
        assert "no answer within 1 s" in outcome.message
        assert_healthy(pool, planted())


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="the system does not tell other processes' CPU time")
@pytest.mark.parametrize("how", ["sleep", "hold"])
def test_a_worker_that_only_sleeps_is_not_waited_for(how: str) -> None:
    with Pool() as pool:
        assert_healthy(pool, planted())
        spec = planted(idle_s=1)
        pool._workers["planted"].spec = spec
        outcome = run(pool, spec, subject(pool, how))
        assert outcome.status is Status.TIMEOUT, outcome
        assert "it hangs" in outcome.message and "within 1 s" in outcome.message
        assert_healthy(pool, planted())


def test_a_worker_that_computes_in_silence_is_waited_for() -> None:
    with Pool() as pool:
        assert_healthy(pool, planted())
        spec = planted(idle_s=1, wall_s=3)
        pool._workers["planted"].spec = spec
        outcome = run(pool, spec, subject(pool, "compute"))
        assert "no answer within 3 s" in outcome.message, outcome


def test_memory_is_limited() -> None:
    with Pool() as pool:
        outcome = run(pool, planted(memory_mb=2048), subject(pool, "allocate"))
        assert outcome.status is Status.OOM, outcome


def test_noise_on_stdout_is_not_an_answer(pool: Pool) -> None:
    outcome = run(pool, planted(), subject(pool, "chatter"))
    assert outcome.ok, outcome
    assert torch.equal(outcome.outputs[0].tensor, torch.arange(4.0) * 2)


def test_a_wrong_count_of_outputs_is_kept_as_it_is(pool: Pool) -> None:
    outcome = run(pool, planted(), subject(pool, "too-few"))
    assert outcome.ok and outcome.outputs == ()


def test_an_adapter_that_cannot_be_imported_is_said(pool: Pool) -> None:
    with pytest.raises(PlatformUnavailable, match="gone cannot be loaded") as caught:
        run(pool, PlatformSpec("gone", "no_such_module:Adapter"), subject(pool, "healthy"))
    assert "no_such_module" in str(caught.value)


def test_an_interpreter_without_torch_is_an_outcome(pool: Pool, tmp_path: Path) -> None:
    fake = tmp_path / "python"
    fake.write_text("#!/bin/sh\necho 'No module named torch' >&2\nexit 1\n")
    fake.chmod(0o755)
    spec = PlatformSpec("bare", "mindgap.platforms.torch.eager:Eager", python=str(fake))
    outcome = run(pool, spec, subject(pool, "healthy"))
    assert outcome.status is Status.CRASH
    assert "No module named torch" in outcome.message


def test_a_worker_killed_while_it_is_asked_about_itself_is_asked_again(pool: Pool, tmp_path: Path) -> None:
    once = tmp_path / "python"
    once.write_text(f'#!/bin/sh\nmkdir "{tmp_path}/killed" 2>/dev/null && kill -9 $$\nexec "{sys.executable}" "$@"\n')
    once.chmod(0o755)
    assert require(pool, PlatformSpec("once", "mindgap.platforms.torch.eager:Eager", python=str(once))).available
    always = tmp_path / "always"
    always.write_text("#!/bin/sh\nkill -9 $$\n")
    always.chmod(0o755)
    spec = PlatformSpec("always", "mindgap.platforms.torch.eager:Eager", python=str(always))
    with pytest.raises(PlatformUnavailable, match="SIGKILL"):
        require(pool, spec)
    outcome = run(pool, spec, subject(pool, "healthy"))
    assert "killed by SIGKILL" in outcome.message and "4 workers in a row" in outcome.message


@pytest.mark.skipif(oom_kills() is None, reason="the system does not count what it ends for lack of memory")
def test_a_worker_that_somebody_kills_is_asked_again_and_is_not_out_of_memory(tmp_path: Path) -> None:
    """One kill changes nothing; four in a row are told as what they are."""
    with Pool() as pool:
        assert pool.ask_one(planted(), killed_once, str(tmp_path / "once")) == 7
        outcome = run(pool, planted(), subject(pool, "killed"))
        assert outcome.status is Status.CRASH and "from outside" in outcome.message, outcome


def test_what_is_known_of_a_kill() -> None:
    assert cause_of_kill(3, 4)[0] is Status.OOM
    assert cause_of_kill(3, 3)[0] is Status.CRASH and "from outside" in cause_of_kill(3, 3)[1]
    assert "most likely" in cause_of_kill(None, None)[1]


def test_a_closed_pool_starts_nothing(pool: Pool) -> None:
    """A thread that still asks when everything is ended gets an answer, and no worker is left behind."""
    closed = Pool()
    parcel = subject(pool, "healthy")
    closed.close()
    outcome = running.run(closed, planted(), parcel)
    assert not outcome.ok and "stopped" in outcome.message and not closed._workers


def test_nothing_is_left_after_close() -> None:
    with Pool() as pool:
        assert_healthy(pool, planted())
        assert run(pool, planted(), subject(pool, "child")).ok
        group = pool._workers["planted"]._process.pid
        family = descendants(group, 10)
        scratch = pool.scratch.path
        assert scratch.exists()
    assert _wait_until_gone(group)
    assert len(family) >= 2 and not any(Path(f"/proc/{process}").exists() for process in family)
    assert not scratch.exists()


@pytest.mark.parametrize("how", ["healthy", "hold"])
def test_no_worker_outlives_a_killed_parent(how: str) -> None:
    """Also when a runtime hangs while it holds the interpreter lock."""
    code = (
        "import sys, threading, time\n"
        "from mindgap.execution.pool import Pool\n"
        "from tests.execution.test_pool import planted, run, subject\n"
        "pool = Pool()\n"
        "run(pool, planted(), subject(pool, 'healthy'))\n"
        "print(pool._workers['planted']._process.pid, flush=True)\n"
        f"run(pool, planted(), subject(pool, {how!r}))\n"
        "print('idle', flush=True)\n"
        "time.sleep(600)\n"
    )
    parent = subprocess.Popen([sys.executable, "-c", code], cwd=ROOT, stdout=subprocess.PIPE, text=True)
    assert parent.stdout is not None
    group = int(parent.stdout.readline())
    if how == "healthy":
        assert parent.stdout.readline().strip() == "idle"
    else:
        time.sleep(1)
    parent.send_signal(signal.SIGKILL)
    parent.wait()
    assert _wait_until_gone(group)
    with Pool():  # the next session removes what the killed one left behind
        pass
    assert not list(Path("/dev/shm").glob(f"mindgap-work-{parent.pid}-*"))


def test_an_interrupt_ends_the_workers() -> None:
    code = (
        "from mindgap.execution.pool import Pool\n"
        "from tests.execution.test_pool import planted, run, subject\n"
        "with Pool() as pool:\n"
        "    run(pool, planted(), subject(pool, 'healthy'))\n"
        "    print(pool._workers['planted']._process.pid, flush=True)\n"
        "    run(pool, planted(), subject(pool, 'sleep'))\n"
    )
    parent = subprocess.Popen(
        [sys.executable, "-c", code], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert parent.stdout is not None
    group = int(parent.stdout.readline())
    time.sleep(1)
    parent.send_signal(signal.SIGINT)
    _, errors = parent.communicate(timeout=30)
    assert "KeyboardInterrupt" in errors
    assert _wait_until_gone(group)


def _wait_until_gone(group: int, seconds: float = 20.0) -> bool:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        try:
            os.killpg(group, 0)
        except ProcessLookupError:
            return True
        time.sleep(0.1)
    return False

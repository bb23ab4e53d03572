"""A worker process as its parent sees it: started, asked, ended."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final

from mindgap.execution.frames import (
    Answer,
    Ask,
    Broken,
    BrokenAnswer,
    Item,
    Message,
    Reached,
    Refused,
    Silence,
    Start,
    receive,
    send,
)
from mindgap.execution.pulse import await_message
from mindgap.execution.scratch import Scratch
from mindgap.records.outcome import Stage, Status
from mindgap.records.platform import Limits, PlatformSpec

LOG_TAIL_BYTES: Final = 4096
LOG_LIMIT_BYTES: Final = 1 << 20
START_TIMEOUT_S: Final = 300.0  # importing torch on a loaded machine; far more than any start seen (FACTS: 2-8 s)

_QUIET: Final = {
    "OMP_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "TORCHINDUCTOR_COMPILE_THREADS": "1",
    "TOKENIZERS_PARALLELISM": "false",
    "PYTHONUNBUFFERED": "1",
    "PYTHONDONTWRITEBYTECODE": "1",
}


@dataclass(frozen=True, slots=True)
class Death:
    """How a worker ended before it answered."""

    status: Status
    message: str
    stage: Stage
    log_tail: str
    outside: bool = False
    """Ended by SIGKILL, which no program sends to itself: by the kernel for lack of memory, or by somebody."""


Reply = Answer | Refused | Broken | Death


class WorkerProcess:
    """One long-lived process that hosts one platform."""

    def __init__(self, spec: PlatformSpec, scratch: Scratch, import_paths: list[str]) -> None:
        self.spec = spec
        self._log = scratch.new_file("log")
        request_read, self._requests = os.pipe()
        self._answers, answer_write = os.pipe()
        try:
            with self._log.open("ab") as log:
                self._process = subprocess.Popen(
                    [spec.python or sys.executable, "-m", "mindgap.execution.worker",
                     str(request_read), str(answer_write)],
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    env=_environment(spec, scratch),
                    pass_fds=(request_read, answer_write),
                    start_new_session=True,
                )  # fmt: skip
        except OSError:
            os.close(self._requests)
            os.close(self._answers)
            raise
        finally:
            os.close(request_read)
            os.close(answer_write)
        self.alive = True
        self.resident_mb = 0
        """Memory that it held when it last answered."""
        self._import_paths = import_paths
        self._started = False
        self._mark = 0
        """Where the log of the request at hand begins."""

    def ask(
        self,
        request: Ask,
        on_stage: Callable[[Stage], None] | None = None,
        on_item: Callable[[bytes], None] | None = None,
    ) -> Reply:
        """Send a request and wait for its answer, or for the worker's death.

        A task with many results reports each when it is done; the time limit then holds for each of them.
        """
        limits = self.spec.limits
        if self.spec.device is not None:  # whoever waits for a device uses no CPU time
            limits = replace(limits, idle_s=limits.wall_s)
        if not self._started:
            start = Start(self.spec, tuple(self._import_paths))
            answer = self._exchange(start, replace(limits, wall_s=START_TIMEOUT_S), None, None)
            if not isinstance(answer, Answer):
                return answer
            self._started = True
        return self._exchange(request, limits, on_stage, on_item)

    def _exchange(
        self,
        request: Message,
        limits: Limits,
        on_stage: Callable[[Stage], None] | None,
        on_item: Callable[[bytes], None] | None,
    ) -> Reply:
        stage = Stage.LOAD
        self._mark = self._log_size() if self._started else 0  # an interpreter may fail before it is first asked
        deadline = time.monotonic() + limits.wall_s
        try:
            send(self._requests, request)
            while True:
                await_message(self._answers, self._process.pid, limits, deadline)
                message = receive(self._answers, deadline)
                if message is None:
                    return self._bury(stage)
                if isinstance(message, Reached):
                    stage = message.stage
                    if on_stage is not None:
                        on_stage(stage)
                elif isinstance(message, Item):
                    stage, deadline = Stage.LOAD, time.monotonic() + limits.wall_s
                    if on_item is not None:
                        on_item(message.result)
                elif isinstance(message, Answer | Refused | Broken):
                    return message
                else:
                    raise BrokenAnswer(f"a worker does not send {type(message).__name__}")
        except Silence as error:
            self.kill()
            return Death(Status.TIMEOUT, str(error), stage, self.log_tail())
        except BrokenAnswer as error:
            self.kill()
            return Death(Status.CRASH, f"half-written answer: {error}", stage, self.log_tail())
        except BrokenPipeError:
            return self._bury(stage)
        except BaseException:  # Ctrl-C while waiting: the worker's answer would be out of step
            self.kill()
            raise

    def interrupt(self) -> None:
        """End the process from another thread than the one that waits for it, which then buries it."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)

    def kill(self) -> None:
        """End the process and everything that it started, now: nothing in it is worth waiting for."""
        if not self.alive:
            return
        self.alive = False
        self.interrupt()
        self._process.wait()
        for descriptor in (self._requests, self._answers):
            if descriptor >= 0:
                with contextlib.suppress(OSError):
                    os.close(descriptor)

    def _bury(self, stage: Stage) -> Death:
        try:
            code = self._process.wait(timeout=5.0)
        except subprocess.TimeoutExpired:
            code = None  # closed its pipe, but lives on
        log = self.log_tail()
        self.kill()
        status, message = _cause_of_death(code, self.spec, log)
        return Death(status, message, stage, log, outside=code == -signal.SIGKILL)

    def _log_size(self) -> int:
        return self._log.stat().st_size if self._log.exists() else 0

    def log_tail(self) -> str:
        """What the worker printed since it was last asked, as far as it is kept; a long log is cut off."""
        with self._log.open("rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(min(self._mark, size), size - LOG_TAIL_BYTES))
            tail = file.read().decode(errors="replace").strip()
        if size > LOG_LIMIT_BYTES:
            os.truncate(self._log, 0)
        return tail


def _cause_of_death(code: int | None, spec: PlatformSpec, log: str) -> tuple[Status, str]:
    """A status and a sentence for an exit code."""
    if code is None:
        return Status.CRASH, "the worker closed its answer pipe and went on"
    if code >= 0:
        last = log.splitlines()[-1] if log else "it printed nothing"
        return Status.CRASH, f"the process ended by itself with exit code {code}: {last}"
    number = -code
    name = signal.Signals(number).name if number in signal.valid_signals() else f"signal {number}"
    if number == signal.SIGXCPU:
        return Status.TIMEOUT, f"used more than {spec.limits.cpu_s:g} s of CPU time"
    if number == signal.SIGKILL:
        return Status.OOM, "killed by SIGKILL, most likely by the kernel for lack of memory"
    if number == signal.SIGABRT and any(word in log for word in ("bad_alloc", "alloc", "out of memory")):
        return Status.OOM, f"out of memory (limit {spec.limits.memory_mb} MB)"
    return Status.CRASH, f"killed by {name}{_MEANING.get(name, '')}"


_MEANING: Final = {
    "SIGSEGV": " (segmentation fault)",
    "SIGABRT": " (abort)",
    "SIGFPE": " (arithmetic trap)",
    "SIGBUS": " (bus error)",
    "SIGILL": " (illegal instruction)",
}


def _environment(spec: PlatformSpec, scratch: Scratch) -> dict[str, str]:
    """The parent's environment, quieter, with the platform's own settings last."""
    inherited = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    given = spec.env.get("PYTHONPATH") or (os.environ.get("PYTHONPATH") if spec.python is None else None)
    paths = [str(scratch.package_root), *([given] if given else [])]
    return {**inherited, **_QUIET, **spec.env, "PYTHONPATH": os.pathsep.join(paths)}

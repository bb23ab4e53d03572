"""A worker process as its parent sees it: started, asked, ended."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import getpass
import json
import os
import re
import signal
import struct
import subprocess
import sys
import tempfile
import termios
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Final

from mindgap.errors import PlatformUnavailable
from mindgap.execution.frames import (
    Answer,
    Ask,
    Broken,
    BrokenAnswer,
    Item,
    Message,
    OutOfStep,
    Reached,
    Refused,
    Silence,
    Start,
    receive,
    send,
)
from mindgap.execution.guardian import ENDING_S, Orders
from mindgap.execution.pulse import await_message
from mindgap.execution.ring import SIZE, Ring
from mindgap.execution.scratch import Scratch, end_users, no_space
from mindgap.execution.trees import remove_tree
from mindgap.records.outcome import Stage, Status
from mindgap.records.platform import Limits, PlatformSpec

LOG_TAIL_BYTES: Final = 4096
LOG_WAIT_S: Final = 0.5  # for a guardian that is slow to take what was printed; it takes microseconds
START_TIMEOUT_S: Final = 300.0  # importing torch on a loaded machine; far more than any start seen (FACTS: 2-8 s)
BURIAL_S: Final = 5.0  # for a worker that closed its pipe to end

OUTSIDE: Final = (-signal.SIGKILL, -signal.SIGTERM, -signal.SIGHUP)
"""How a process ends that somebody else ended."""

_QUIET: Final = {
    "OMP_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "TORCHINDUCTOR_COMPILE_THREADS": "1",
    "TOKENIZERS_PARALLELISM": "false",
    "PYTHONUNBUFFERED": "1",
    "PYTHONDONTWRITEBYTECODE": "1",
    "PYTHONSAFEPATH": "1",  # also for what a worker starts: nothing is imported from the current directory
}


@dataclass(frozen=True, slots=True)
class Death:
    """How a worker ended before it answered."""

    status: Status
    message: str
    stage: Stage
    log_tail: str
    outside: bool = False
    """Not the doing of what was asked: a signal that no program sends to itself, or words of an earlier request."""


Reply = Answer | Refused | Broken | Death


class WorkerProcess:
    """One long-lived process that hosts one platform; between it and us is its guardian."""

    def __init__(
        self, spec: PlatformSpec, scratch: Scratch, import_paths: Sequence[str] = (), isolated: bool = False
    ) -> None:
        self.spec = spec
        self.started = False
        """Whether it has become its platform."""
        self.resident_mb = 0
        """Memory that it held when it last answered."""
        self._import_paths = tuple(import_paths) if spec.is_foreign else ()
        self._number = 0
        """Of the request at hand."""
        self._oom_kills: int | None = None
        """Processes that the kernel had ended for lack of memory before the request at hand."""
        self._mark = 0
        """Where the log of the request at hand begins."""
        self._temporary = scratch.new_temporary()
        room = scratch.room(spec.worker_name)
        orders = Orders(spec.limits.memory_mb, spec.limits.files_mb, str(self._temporary), str(room))
        writable = [str(self._temporary), str(room), *spec.writes] if isolated else None
        self._ours: list[int] = []
        theirs: list[int] = []
        try:
            theirs.append(memory := _ring_file(room))
            self._ring = Ring(memory)
            request_read, self._requests = os.pipe()
            self._ours.append(self._requests)
            theirs.append(request_read)
            self._answers, answer_write = os.pipe()
            self._ours.append(self._answers)
            theirs.append(answer_write)
            self._log, log_write = os.pipe()
            self._ours.append(self._log)
            theirs.append(log_write)
            self._process = subprocess.Popen(
                [
                    spec.python or sys.executable, str(Path(__file__).resolve().with_name("worker.py")),
                    *map(str, (request_read, answer_write, self._log, memory)),
                    json.dumps({"orders": asdict(orders), "writable": writable}),
                ],
                stdin=subprocess.DEVNULL,
                stdout=log_write,
                stderr=log_write,
                env=_environment(spec, self._temporary, isolated),
                pass_fds=(request_read, answer_write, self._log, memory),
                start_new_session=True,
            )  # fmt: skip
        except BaseException as error:  # also Ctrl-C: the closed pipe tells a process that was born meanwhile
            self._close()
            if isinstance(error, OSError):
                raise _cannot_start(spec, room, error) from error
            raise
        finally:
            for descriptor in theirs:
                os.close(descriptor)
        self.alive = True

    def start(self) -> Reply | None:
        """Become the platform, if that is still to do; None when it has."""
        if self.started:
            return None
        start = Start(self.spec, self._import_paths)
        answer = self._exchange(start, replace(self._limits(), wall_s=START_TIMEOUT_S), None, None)
        if not isinstance(answer, Answer):
            return answer
        self.started = True
        return None

    def ask(
        self,
        request: Ask,
        on_stage: Callable[[Stage], None] | None = None,
        on_item: Callable[[bytes], None] | None = None,
    ) -> Reply:
        """Send a request to a worker that was started, and wait for its answer, or for the worker's death.

        A task with many results reports each when it is done; the time limit then holds for each of them.
        """
        return self._exchange(request, self._limits(), on_stage, on_item)

    def _limits(self) -> Limits:
        limits = self.spec.limits
        # Whoever waits for a device uses no CPU time.
        return limits if self.spec.device is None else replace(limits, idle_s=limits.wall_s)

    def _exchange(
        self,
        request: Message,
        limits: Limits,
        on_stage: Callable[[Stage], None] | None,
        on_item: Callable[[bytes], None] | None,
    ) -> Reply:
        stage = Stage.LOAD
        self._oom_kills = oom_kills()
        self._mark = self._printed() if self.started else 0  # an interpreter may fail before it is first asked
        deadline = time.monotonic() + limits.wall_s
        try:
            self._number += 1
            if _unread(self._answers):
                raise OutOfStep("there was one before anybody asked")
            send(self._requests, self._number, request)
            while True:
                ready = await_message(self._answers, self._process.pid, limits, deadline, self._is_gone)
                received = receive(self._answers, deadline) if ready else None
                if received is None:
                    return self._bury(stage)
                number, message = received
                if number != self._number:
                    raise OutOfStep(f"it belongs to request {number}, not to {self._number}")
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
            return self._killed(Status.TIMEOUT, str(error), stage)
        except OutOfStep as error:
            return replace(self._killed(Status.CRASH, f"an answer out of step: {error}", stage), outside=True)
        except BrokenAnswer as error:
            return self._killed(Status.CRASH, f"half-written answer: {error}", stage)
        except BrokenPipeError:
            return self._bury(stage)
        except BaseException:  # Ctrl-C while waiting: the worker's answer would be out of step
            self.kill()
            raise

    def interrupt(self) -> None:
        """End the process from another thread than the one that waits for it, which then buries it."""
        for number in (signal.SIGTERM, signal.SIGCONT):  # a guardian that was stopped hears it too
            with contextlib.suppress(ProcessLookupError, PermissionError):
                self._process.send_signal(number)

    def kill(self) -> None:
        """End the process and everything that it started, now: nothing in it is worth waiting for."""
        if not self.alive:
            return
        self.alive = False
        self.interrupt()
        try:
            self._process.wait(timeout=ENDING_S + BURIAL_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        if not self._ring.is_alone:
            end_users(self._temporary)  # somebody killed the guardian before it could
        self._close()

    def _close(self) -> None:
        for descriptor in self._ours:
            os.close(descriptor)
        self._ours.clear()
        remove_tree(self._temporary)

    def _killed(self, status: Status, message: str, stage: Stage) -> Death:
        log = self.log_tail()
        self.kill()
        found = self._ring.ending
        return Death(status, message, stage, log) if found is None else Death(Status(found[0]), found[1], stage, log)

    def _bury(self, stage: Stage) -> Death:
        try:
            code = self._process.wait(timeout=BURIAL_S)
        except subprocess.TimeoutExpired:
            code = None  # closed its pipe, but lives on
        log = self.log_tail()
        self.kill()
        found = self._ring.ending
        if found is not None:
            return Death(Status(found[0]), found[1], stage, log)
        if code == -signal.SIGKILL:
            status, message = cause_of_kill(self._oom_kills, oom_kills())
        else:
            status, message = _cause_of_death(code, self.spec, log)
        return Death(status, message, stage, log, outside=code in OUTSIDE)

    def _is_gone(self) -> bool:
        return self._process.poll() is not None

    def _printed(self) -> int:
        """How much the worker has printed, once its guardian has taken it."""
        deadline = time.monotonic() + LOG_WAIT_S
        while (_unread(self._log) or self._ring.busy) and time.monotonic() < deadline:
            if self._process.poll() is not None:
                break
            time.sleep(0.001)
        return self._ring.printed

    def log_tail(self) -> str:
        """What the worker printed since it was last asked, as far as it is kept; a long log is cut off."""
        if not self._ours:
            return ""
        self._printed()
        if self._process.poll() is not None:  # what a guardian could not take any more
            os.set_blocking(self._log, False)
            while self._ring.take(self._log):
                pass
        return self._ring.since(self._mark)[-LOG_TAIL_BYTES:].decode(errors="replace").strip()


def _unread(descriptor: int) -> int:
    """Bytes that wait in a pipe."""
    return int(struct.unpack("i", fcntl.ioctl(descriptor, termios.FIONREAD, b"\0" * 4))[0])


def _ring_file(folder: Path) -> int:
    """Memory for a ring: a file without a name, written once so that it cannot lack space later."""
    descriptor, name = tempfile.mkstemp(dir=folder)
    os.unlink(name)  # noqa: PTH108
    try:
        os.write(descriptor, bytes(SIZE))
        if os.fstat(descriptor).st_size < SIZE:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    except OSError:
        os.close(descriptor)
        raise
    return descriptor


def _cannot_start(spec: PlatformSpec, folder: Path, error: OSError) -> Exception:
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return no_space(folder)
    if spec.python is not None:
        return PlatformUnavailable(
            f"the interpreter of {spec.name} cannot be started", where=spec.python, cause=error.strerror
        )
    return error


def _cause_of_death(code: int | None, spec: PlatformSpec, log: str) -> tuple[Status, str]:
    """A status and a sentence for an exit code."""
    if code is None:
        return Status.CRASH, "the worker closed its answer pipe and went on"
    if code >= 0:
        last = log.splitlines()[-1] if log else "it printed nothing"
        return Status.CRASH, f"the process ended by itself with exit code {code}: {last}"
    number = -code
    if number == signal.SIGXCPU:
        return Status.TIMEOUT, f"used more than {spec.limits.cpu_s:g} s of CPU time"
    if number == signal.SIGABRT and any(word in log for word in ("bad_alloc", "alloc", "out of memory")):
        return Status.OOM, f"out of memory (limit {spec.limits.memory_mb} MB)"
    return Status.CRASH, killed_by(number)


def killed_by(number: int) -> str:
    """How a process ended, by the number of the signal that ended it."""
    name = signal.Signals(number).name if number in signal.valid_signals() else f"signal {number}"
    return f"killed by {name}{_MEANING.get(name, '')}"


def cause_of_kill(before: int | None, after: int | None) -> tuple[Status, str]:
    """What is known of a SIGKILL that mindgap did not send, by the kernel's count of out-of-memory kills."""
    if before is None or after is None:
        return Status.OOM, "killed by SIGKILL, most likely by the kernel for lack of memory"
    if after > before:
        return Status.OOM, "killed by SIGKILL: the kernel ended processes for lack of memory at that time"
    return Status.CRASH, "killed by SIGKILL from outside; the kernel reports no lack of memory"


def oom_kills() -> int | None:
    """How many processes the kernel has ended for lack of memory; None where it does not say."""
    try:
        lines = Path("/proc/vmstat").read_text().splitlines()
    except OSError:  # not Linux
        return None
    return next((int(line.split()[1]) for line in lines if line.startswith("oom_kill ")), None)


_MEANING: Final = {
    "SIGSEGV": " (segmentation fault)",
    "SIGABRT": " (abort)",
    "SIGFPE": " (arithmetic trap)",
    "SIGBUS": " (bus error)",
    "SIGILL": " (illegal instruction)",
}


def _environment(spec: PlatformSpec, temporary: Path, isolated: bool) -> dict[str, str]:
    """The parent's environment, quieter, with the platform's own settings last."""
    inherited = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    given = spec.env.get("PYTHONPATH") or (os.environ.get("PYTHONPATH") if spec.python is None else None) or ""
    paths = [path for path in given.split(os.pathsep) if path]  # an empty one would be the current directory
    found = {**inherited, **_QUIET, "TMPDIR": str(temporary), **_compiler_cache(temporary, isolated), **spec.env}
    found.pop("PYTHONPATH", None)
    return {**found, "PYTHONPATH": os.pathsep.join(paths)} if paths else found


def _compiler_cache(temporary: Path, isolated: bool) -> dict[str, str]:
    """Where inductor keeps what it compiled: where it would without a temporary directory of the worker's own.

    Its precompiled headers take ten seconds, and it looks for them in the temporary directory whatever it is told.
    """
    try:
        user = re.sub(r'[\\/:*?"<>|]', "_", getpass.getuser())
    except (KeyError, OSError):  # a user without a name
        user = f"uid_{os.getuid()}"
    own, usual = temporary / f"torchinductor_{user}", Path(tempfile.gettempdir()) / f"torchinductor_{user}"
    if not isolated and usual.is_dir():  # from the first worker that compiled something
        with contextlib.suppress(OSError):  # then they are compiled again
            own.symlink_to(usual, target_is_directory=True)
    if "TORCHINDUCTOR_CACHE_DIR" in os.environ and not isolated:
        return {}
    return {"TORCHINDUCTOR_CACHE_DIR": str(own if isolated else usual)}

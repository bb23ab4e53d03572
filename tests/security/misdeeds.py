"""What a hostile model can do inside its worker; each misdeed is a function of the answers' descriptor."""

from __future__ import annotations

import ctypes
import os
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType

import msgspec

from mindgap.errors import MindgapError
from mindgap.execution.frames import MAGIC, Answer, Broken, Item, Message, Refused
from mindgap.execution.tasks import Worker, hosting, stream_task, task

STEP = 1 << 20
"""Bytes that are written at once, 200 times a second at most: what a look of the guardian may miss stays small."""


def chatter() -> str:
    while True:
        os.write(1, b"x" * 65536)


def fork_many() -> str:
    for _ in range(2000):
        if os.fork() == 0:
            time.sleep(600)
            os._exit(0)
    time.sleep(600)
    return ""


def allocate_in_children() -> str:
    for _ in range(4):
        if os.fork() == 0:
            kept = []
            for _ in range(800):
                kept.append(bytearray(b"x" * STEP))
                time.sleep(0.005)
            time.sleep(600)
            os._exit(len(kept))
    time.sleep(600)
    return ""


def fill_nameless_memory() -> str:
    held = []
    for _ in range(4000):
        held.append(os.memfd_create("hidden"))
        os.write(held[-1], b"x" * STEP)
        time.sleep(0.005)
    return ""


def fill_temporary_files() -> str:
    for number in range(4000):
        (Path(tempfile.gettempdir()) / f"file{number}").write_bytes(b"x" * STEP)
        time.sleep(0.005)
    return ""


def write_one_large_file() -> str:
    try:
        with open(f"{tempfile.gettempdir()}/large", "wb", buffering=0) as file:  # noqa: PTH123
            while True:
                file.write(b"x" * STEP)
    except OSError as error:
        return f"{error.strerror} at {file.tell() >> 20} MB" if not file.closed else str(error.strerror)


def daemonise() -> str:
    """A process of a session of its own, whose parent has gone; its id."""
    read, write = os.pipe()
    if os.fork() == 0:
        os.setsid()
        child = os.fork()
        if child:
            os.write(write, str(child).encode())
            os._exit(0)
        signal.pthread_sigmask(signal.SIG_BLOCK, range(1, 32))
        time.sleep(600)
        os._exit(0)
    return os.read(read, 20).decode()


def kill_the_guardian() -> str:
    child = daemonise()
    os.write(1, f"daemon {child}\n".encode())
    time.sleep(0.5)
    os.kill(os.getppid(), signal.SIGKILL)
    time.sleep(600)
    return ""


def close_everything() -> str:
    os.closerange(0, 256)
    time.sleep(600)
    return ""


def ignore_signals() -> str:
    signal.pthread_sigmask(signal.SIG_BLOCK, range(1, 65))
    time.sleep(600)
    return ""


def leave_a_maze() -> str:
    """Directories deeper than a path may be long, and one that nobody may enter."""
    top = Path(tempfile.gettempdir())
    closed = top / "closed"
    (closed / "inner").mkdir(parents=True)
    (closed / "inner" / "file").write_text("x")
    closed.chmod(0)
    os.chdir(top)
    for _ in range(1500):
        os.mkdir("deeper")  # noqa: PTH102
        os.chdir("deeper")
    return str(top)


def compute_in_children() -> str:
    """As a compiler that is started anew for every kernel; no process lives long."""
    end = time.monotonic() + 9
    while time.monotonic() < end:
        child = os.fork()
        if child == 0:
            while time.process_time() < 0.5:
                pass
            os._exit(0)
        os.waitpid(child, 0)
    return "done"


def use_the_processor() -> str:
    while True:
        pass


def look_around() -> str:
    """What a worker imports from, and its temporary directory."""
    return repr((sys.path, tempfile.gettempdir(), "msgpack" in sys.modules))


def write_elsewhere() -> str:
    """Everything that an isolated worker must not do; what it could do after all."""
    done = []
    target = Path(os.environ["FORBIDDEN"])
    attempts: dict[str, Callable[[], object]] = {
        "write": lambda: (target / "new").write_text("x"),
        "append": lambda: os.open(target / "old", os.O_WRONLY),
        "truncate": lambda: os.truncate(target / "old", 0),
        "remove": lambda: (target / "old").unlink(),
        "rename": lambda: (target / "old").rename(target / "other"),
        "link": lambda: (target / "link").symlink_to("old"),
        "shared memory": lambda: Path("/dev/shm/mindgap-test-escape").write_text("x"),
        "internet": lambda: socket.socket(socket.AF_INET, socket.SOCK_STREAM),
        "datagrams": lambda: socket.socket(socket.AF_INET6, socket.SOCK_DGRAM),
        "local sockets": lambda: socket.socket(socket.AF_UNIX),
        "signal": lambda: os.kill(int(os.environ["VICTIM"]), signal.SIGTERM),
        "child": lambda: subprocess.run(["touch", str(target / "child")], check=True, capture_output=True),
        "trace": lambda: _traced(int(os.environ["VICTIM"])),
    }
    for name, attempt in attempts.items():
        try:
            attempt()
            done.append(name)
        except (OSError, subprocess.CalledProcessError):
            pass
    with tempfile.NamedTemporaryFile() as own:
        own.write(b"x")
    Path(os.devnull).write_text("x")
    return ", ".join(done)


def _traced(process: int) -> None:
    if ctypes.CDLL(None, use_errno=True).ptrace(16, process, 0, 0):
        raise OSError(ctypes.get_errno(), "ptrace")


def frame(body: bytes, size: int | None = None) -> Callable[[int], bytes]:
    return lambda number: struct.pack("<4sII", MAGIC, len(body) if size is None else size, number) + body


def encoded(message: Message) -> Callable[[int], bytes]:
    return frame(msgspec.msgpack.encode(message))


def _answer_twice(number: int) -> bytes:
    return b"".join(map(encoded(Answer(msgspec.msgpack.encode("forged"), 1)), (number, number + 1)))


FORGERIES: dict[str, Callable[[int], bytes]] = {
    "an answer of another type": encoded(Answer(b"\xc1", 1)),
    "an answer of a number": encoded(Answer(msgspec.msgpack.encode(7), 1)),
    "an error of no class": encoded(Refused("__name__", "what", None, None, None)),
    "an error of a class that is none of ours": encoded(Refused("annotations", "what", None, None, None)),
    "a result that nobody asked for": encoded(Item(b"\xc0")),
    "a message of four gigabytes": frame(b"", 0xFFFFFFFF),
    "nested arrays": frame(b"\x91" * 100_000),
    "an answer to the next question": _answer_twice,
    "an answer to the last question": lambda number: encoded(Answer(msgspec.msgpack.encode("forged"), 1))(number - 1),
    "a bug of mindgap": encoded(Broken("KeyError: 'forged'", "Traceback: forged")),
    "not a message": lambda number: b"hello " * 100,
    "broken text": frame(b"\x82\xa4type\xa6Broken\xa7message\xd9\x04\xff\xff\xff\xff"),
}


@hosting(MindgapError)
@task
def forge(worker: Worker, name: str) -> str:
    os.write(int(sys.argv[2]), FORGERIES[name](number_of_the_request()))
    time.sleep(0.2)
    return "the real answer"


def number_of_the_request() -> int:
    """What a model that walks up its own stack finds there."""
    caller: FrameType | None = sys._getframe()
    while caller is not None and caller.f_code.co_name != "_serve":
        caller = caller.f_back
    assert caller is not None
    return int(caller.f_locals["number"])


@stream_task
def forge_many(worker: Worker, count: int) -> Iterator[str]:
    for _ in range(count):
        yield "one more"


@task
def misbehave(worker: Worker, how: str) -> str:
    return str(globals()[how]())

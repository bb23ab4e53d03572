"""The process in which one platform lives: `python -m mindgap.execution.worker REQUESTS ANSWERS`.

It needs torch, numpy, msgpack and msgspec, nothing else. Requests and answers travel on two pipes of their own, so
whatever a runtime prints goes to the log and never into an answer.
"""

from __future__ import annotations

import faulthandler
import os
import select
import signal
import sys
import time
from typing import Final

GRACE_S: Final = 5.0  # time to finish an atexit handler after the parent has gone


def main() -> None:
    """Serve requests until the parent closes the pipe."""
    requests, answers = int(sys.argv[1]), int(sys.argv[2])
    if os.fork() == 0:
        _guard(requests)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    faulthandler.enable()
    from mindgap.execution.frames import receive, send
    from mindgap.execution.serve import Server

    server = Server(report=lambda message: send(answers, message))
    while (message := receive(requests)) is not None:
        send(answers, server.serve(message))


def _guard(requests: int) -> None:
    """A second process, without torch, that ends the whole group when the parent has gone.

    A thread would not do: a runtime that hangs while it holds the interpreter lock would keep it waiting.
    """
    os.closerange(0, requests)
    os.closerange(requests + 1, 1 << 16)  # an open end of the answer pipe would hide the worker's death
    worker = os.getppid()
    hangup = select.poll()
    hangup.register(requests, 0)  # only POLLHUP: the parent closed its end, or died
    while os.getppid() == worker:
        if hangup.poll(1000):
            deadline = time.monotonic() + GRACE_S
            while os.getppid() == worker and time.monotonic() < deadline:
                time.sleep(0.05)
            break
    os.killpg(0, signal.SIGKILL)


if __name__ == "__main__":
    main()

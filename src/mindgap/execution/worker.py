"""The process in which one platform lives: `python .../execution/worker.py REQUESTS ANSWERS LOG RING ORDERS`.

It needs torch, numpy, msgpack and msgspec, nothing else. Requests and answers travel on two pipes of their own, so
whatever a runtime prints goes to the log and never into an answer. The first process becomes the guardian; the
second, its child, serves.
"""

from __future__ import annotations

import sys

if __name__ == "__main__" and not getattr(sys.flags, "safe_path", False):
    del sys.path[0]  # the directory of this file: nothing is imported from where a program happens to lie

import faulthandler
import importlib.util
import json
import os
import signal


def main() -> None:
    """Serve requests until the parent closes the pipe."""
    requests, answers, log, memory = map(int, sys.argv[1:5])
    _find_package()
    from mindgap.execution.guardian import Guardian, Orders, adopt, die_with
    from mindgap.execution.ring import Ring

    given = json.loads(sys.argv[5])
    ring = Ring(memory)
    os.close(memory)
    adopt()
    guardian = os.getpid()
    worker = os.fork()
    if worker:
        os.close(answers)  # an open end would hide the worker's death
        with open(os.devnull, "r+b", buffering=0) as nothing:  # noqa: PTH123 - a descriptor
            os.dup2(nothing.fileno(), 1)
            os.dup2(nothing.fileno(), 2)
        Guardian(worker, requests, log, ring, Orders(**given["orders"])).watch()
    ring.close()
    os.close(log)
    os.setpgid(0, 0)
    die_with(guardian)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    faulthandler.enable()
    if given["writable"] is not None:
        from mindgap.execution.isolation import isolate

        isolate(given["writable"])
    _serve(requests, answers)


def _serve(requests: int, answers: int) -> None:
    from functools import partial

    from mindgap.execution.frames import receive, send
    from mindgap.execution.serve import Server

    server = Server()
    while (request := receive(requests)) is not None:
        number, message = request
        send(answers, number, server.serve(message, report=partial(send, answers, number)))


def _find_package() -> None:
    """This package, from where this file lies: a foreign interpreter finds it, and nothing else of ours."""
    folder = os.path.dirname(os.path.dirname(os.path.realpath(__file__)))  # noqa: PTH120
    spec = importlib.util.spec_from_file_location(
        "mindgap", f"{folder}/__init__.py", submodule_search_locations=[folder]
    )
    assert spec is not None and spec.loader is not None
    package = importlib.util.module_from_spec(spec)
    sys.modules["mindgap"] = package
    spec.loader.exec_module(package)


if __name__ == "__main__":
    main()

"""Inside a worker: become a platform, then run one task after the other, always with an answer."""

from __future__ import annotations

import contextlib
import resource
import sys
import traceback
from collections.abc import Callable
from typing import Any, TypeVar

import torch

from mindgap.errors import MindgapError, PlatformUnavailable
from mindgap.execution.frames import Answer, Ask, Broken, Item, Message, Reached, Refused, Start
from mindgap.execution.tasks import Task, find
from mindgap.records.memory import resident_mb
from mindgap.records.outcome import Stage
from mindgap.records.platform import Limits, PlatformSpec

K = TypeVar("K")


class Server:
    """Holds one platform and answers requests."""

    def __init__(self) -> None:
        self._report: Callable[[Message], None] = _tell_nobody
        self._limits = Limits()
        self._platform: Any = None
        self._kept: dict[Callable[[], Any], Any] = {}

    @property
    def platform(self) -> Any:
        if self._platform is None:
            raise RuntimeError("this worker hosts no platform")
        return self._platform

    def keep(self, kind: Callable[[], K]) -> K:
        if kind not in self._kept:
            self._kept[kind] = kind()
        return self._kept[kind]  # type: ignore[no-any-return]

    def reach(self, stage: Stage) -> None:
        self._report(Reached(stage))

    def serve(self, message: Message, report: Callable[[Message], None]) -> Message:
        """The answer to one request; what goes wrong is part of it, and `report` hears what comes before it."""
        self._report = report
        self._grant_cpu_time()
        try:
            if isinstance(message, Start):
                self._start(message.spec, message.import_paths)
                return Answer(b"", resident_mb())
            assert isinstance(message, Ask)
            return Answer(self._run(find(message.task), message.request), resident_mb())
        except MindgapError as error:
            return Refused(type(error).__name__, error.what, error.where, error.cause, error.hint)
        except Exception as error:
            return Broken(f"{type(error).__name__}: {error}", traceback.format_exc())

    def _run(self, task: Task[Any, Any], request: bytes) -> bytes:
        result = task.function(self, task.decode_request(request))
        if not task.is_stream:
            return task.encode(result)
        for item in result:
            self._report(Item(task.encode(item)))
            self._grant_cpu_time()  # every item has the whole limit for itself
        return b""

    def _start(self, spec: PlatformSpec, import_paths: tuple[str, ...]) -> None:
        self._limits = spec.limits
        size = self._limits.memory_mb << 20
        with contextlib.suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_DATA, (size, size))
        with contextlib.suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        files = self._limits.files_mb << 20
        with contextlib.suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_FSIZE, (files, files))
        sys.path.extend(path for path in import_paths if path not in sys.path)
        torch.set_num_threads(int(str(spec.options.get("threads", 1))))
        if spec.adapter:
            self._platform = load_adapter(spec)

    def _grant_cpu_time(self) -> None:
        """The kernel ends the process when a request has used its share, even inside native code."""
        used = resource.getrusage(resource.RUSAGE_SELF)
        limit = int(used.ru_utime + used.ru_stime + self._limits.cpu_s) + 1
        with contextlib.suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_CPU, (limit, resource.RLIM_INFINITY))


def _tell_nobody(message: Message) -> None:
    """Between two requests nobody listens."""


def load_adapter(spec: PlatformSpec) -> Any:
    """The adapter of a platform, imported by this interpreter."""
    try:
        cls: Any = find(spec.adapter)
        if not (isinstance(cls, type) and hasattr(cls, "prepare")):
            raise TypeError(f"{spec.adapter} is not a Platform")
        return cls(spec)
    except Exception as error:  # somebody else's module may raise anything
        raise PlatformUnavailable(
            f"platform {spec.name} cannot be loaded",
            where=spec.adapter,
            cause=f"{type(error).__name__}: {error}".splitlines()[0],
            hint=spec.install,
        ) from error

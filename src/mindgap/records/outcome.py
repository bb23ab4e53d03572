"""What one platform did with one program: a value, whatever happened."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum

from mindgap.records.tensors import NamedTensor


class Stage(str, Enum):
    """How far a program came on a platform."""

    LOAD = "load"
    EXPORT = "export"
    CONVERT = "convert"
    COMPILE = "compile"
    RUN = "run"


class Status(str, Enum):
    """What happened there."""

    OK = "ok"
    UNSUPPORTED = "unsupported"
    """The platform says that it has no such operator, dtype or construct."""
    REJECTED = "rejected"
    """The platform ran the program and refused its values or arguments."""
    ERROR = "error"
    """Any other exception, an internal error of the platform included."""
    CRASH = "crash"
    """The process died: a segmentation fault, an abort, an arithmetic trap."""
    TIMEOUT = "timeout"
    OOM = "oom"


class Ran(str, Enum):
    """What the platform executed: the user's own code, or the exported graph."""

    SOURCE = "source"
    PROGRAM = "program"


@dataclass(frozen=True, slots=True)
class Outcome:
    """What one platform did with one program."""

    platform: str
    status: Status
    stage: Stage
    """The stage that failed; RUN when all went well."""
    message: str = ""
    log_tail: str = ""
    """The last lines that the worker printed, kept when something went wrong."""
    outputs: tuple[NamedTensor, ...] = ()
    """Outputs by name; inputs that the model changed follow as `input:NAME`."""
    ran: Ran | None = None
    note: str = ""
    """What a reader should know although nothing failed (graph breaks, a fallback)."""
    stable: bool | None = None
    """Whether a second run gave the same bits; None when there was no second run."""
    seconds: Mapping[str, float] = field(default_factory=dict)
    """Time by stage."""

    @property
    def ok(self) -> bool:
        return self.status is Status.OK

    @property
    def total_seconds(self) -> float:
        return sum(self.seconds.values())

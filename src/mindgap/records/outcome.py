"""What one platform did with one case: a value, whatever happened."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Final

from mindgap.records.tensors import NamedTensor, TensorMeta


class Stage(str, Enum):
    """How far a case came on a platform."""

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

    @property
    def is_death(self) -> bool:
        """Whether the platform neither answered nor refused: what ran before or beside it may be to blame."""
        return self in (Status.CRASH, Status.TIMEOUT, Status.OOM)


class Ran(str, Enum):
    """What the platform executed: the user's own code, or the exported graph."""

    SOURCE = "source"
    PROGRAM = "program"


@dataclass(frozen=True, slots=True)
class StoredTensor:
    """An output in the file that the worker wrote."""

    name: str
    meta: TensorMeta
    offset: int
    stride: tuple[int, ...] | None = None
    """The layout that the platform really returned; the file holds a compact copy."""


AT: Final = "at "
DIGEST_BYTES: Final = 16

NO_OUTPUTS: Final = hashlib.blake2b(digest_size=DIGEST_BYTES).hexdigest()
"""The digest of a run that returned nothing and changed nothing."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What one platform did with one case.

    Outputs stay in a file until somebody needs them (`stored`), and are copied into memory then (`outputs`).
    """

    platform: str
    status: Status
    stage: Stage
    """The stage that failed; RUN when all went well."""
    message: str = ""
    log_tail: str = ""
    """The last lines that the worker printed, kept when something went wrong."""
    exception: str = ""
    """The class of the exception that ended it: `TypeError`."""
    where: str = ""
    """The line of the model's own code that failed, where one is known: `decoder.py:41 in forward`."""
    ran: Ran | None = None
    not_compared: tuple[str, ...] = ()
    """Outputs that are neither tensors nor numbers, each with its class: `state (Session)`."""
    note: str = ""
    """What a reader should know besides (graph breaks, a fallback); of a failure that came out of one operator's call,
    `at aten.index_add.default`."""
    fallback: float | None = None
    """The share of operators that ran elsewhere than the platform says; None where its runtime cannot tell, or tells
    it of a crowd of which only some ran elsewhere."""
    families: tuple[str, ...] = ()
    """Exporters, compilers and kernels that it shares with others: platforms that share any are one witness."""
    stable: bool | None = None
    """Whether a second run gave the same bits; None when there was no second run."""
    seconds: Mapping[str, float] = field(default_factory=dict)
    """Time by stage."""
    digest: str = ""
    """Of names, dtypes, shapes and bits of all outputs: the same digest, the same outputs."""
    is_local_eager: bool = False
    """Whether it is eager on the CPU of this machine: whoever judges need not run that again."""
    emulates: str = ""
    """The hardware that the platform stands in for; empty where the result was observed."""
    composed: tuple[str, ...] = ()
    """Operators that mindgap put together from calls of the runtime: a difference may be mindgap's own."""
    file: str = field(default="", compare=False)
    """Where the outputs lie; empty when they were not kept."""
    stored: tuple[StoredTensor, ...] = field(default=(), compare=False)
    outputs: tuple[NamedTensor, ...] = field(default=(), compare=False)
    """Outputs by name, in this process's memory; inputs that the model changed follow as `input:NAME`."""

    @property
    def ok(self) -> bool:
        return self.status is Status.OK

    @property
    def failed_at(self) -> str:
        """The operator whose call failed, where the platform calls one after the other."""
        return self.note.removeprefix(AT) if self.note.startswith(AT) and not self.ok else ""

    @property
    def total_seconds(self) -> float:
        return sum(self.seconds.values())

    def __repr__(self) -> str:
        if not self.ok:
            return f"<Outcome {self.platform}: {self.status.value} at {self.stage.value}: {self.message}>"
        told = ", ".join(f"{item.name} {item.meta}" for item in self.stored or self.outputs)
        return f"<Outcome {self.platform}: ok{f', {told}' if told else ''}>"

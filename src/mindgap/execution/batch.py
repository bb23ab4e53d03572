"""Many small programs in one request: what is asked of a worker, and what it answers for each of them."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from mindgap.execution import arena
from mindgap.execution.process import Death
from mindgap.records.outcome import Outcome, Ran, Stage, Status
from mindgap.records.tensors import DTYPE_NAMES, NamedTensor, byte_view
from mindgap.records.verdict import Blame, Conclusion, Kind, Verdict


@dataclass(frozen=True, slots=True)
class Job:
    """One program to run; its weights and inputs are made from seeds where it runs."""

    program: bytes
    seed: int = 0
    weights: str = ""
    """The directory with the constants that no seed gives: the raw values of each in a file named by its digest."""


@dataclass(frozen=True, slots=True)
class Trial:
    """What one platform did with one job; the outputs themselves stay in a file until somebody needs them."""

    platform: str
    status: Status
    stage: Stage
    message: str = ""
    digest: str = ""
    """Of names, dtypes, shapes and bits of all outputs: the same digest, the same outputs."""
    stable: bool | None = None
    note: str = ""
    seconds: float = 0.0
    """In the platform's own stages."""
    outputs: tuple[tuple[str, arena.Entry, tuple[int, ...] | None], ...] = field(default=(), compare=False)
    """Name, place in the file and strides of each output."""
    file: str = field(default="", compare=False)
    """Where the outputs lie; empty when they were not kept."""
    here: bool = field(default=False, compare=False)
    """Whether it ran on the machine that judges: what eager did there need not be done again."""

    @property
    def ok(self) -> bool:
        return self.status is Status.OK

    def outcome(self) -> Outcome:
        """With the outputs mapped into memory."""
        tensors = arena.read(Path(self.file), [entry for _, entry, _ in self.outputs]) if self.file else []
        return Outcome(
            platform=self.platform,
            status=self.status,
            stage=self.stage,
            message=self.message,
            outputs=tuple(NamedTensor(name, t, stride) for (name, _, stride), t in zip(self.outputs, tensors)),
            ran=Ran.PROGRAM,
            note=self.note,
            stable=self.stable,
        )

    def without_outputs(self) -> Trial:
        """The same trial after its file was removed."""
        if self.file:
            Path(self.file).unlink(missing_ok=True)
        return replace(self, file="", outputs=())

    def to_message(self) -> dict[str, Any]:
        message = {name: getattr(self, name) for name in self.__dataclass_fields__}
        return {**message, "status": self.status.value, "stage": self.stage.value}

    @classmethod
    def from_message(cls, message: Mapping[str, Any]) -> Trial:
        return cls(**{**message, "status": Status(message["status"]), "stage": Stage(message["stage"])})

    @classmethod
    def died(cls, platform: str, death: Death) -> Trial:
        return cls(platform, death.status, death.stage, death.message)


@dataclass(frozen=True, slots=True)
class Relation:
    """Rows of a program's outputs that must equal rows of another program's outputs on the same platform."""

    original: Job
    take: tuple[int, ...] = ()
    """Rows of the original; empty is everything."""
    of: tuple[int, ...] = ()
    """The rows of the derived program that must equal them."""
    size: int = 0
    """The batch size of the original: outputs whose first dimension is another do not take part."""


@dataclass(frozen=True, slots=True)
class Question:
    """One program whose platforms do not all agree bit for bit: who is wrong?"""

    job: Job
    baseline: Trial
    candidates: tuple[Trial, ...]
    relation: Relation | None = None
    """Set when the baseline is not another platform but another program on the same platform."""

    def to_message(self) -> dict[str, Any]:
        return {
            "job": asdict(self.job),
            "baseline": self.baseline.to_message(),
            "candidates": [trial.to_message() for trial in self.candidates],
            "relation": None if self.relation is None else asdict(self.relation),
        }

    @classmethod
    def from_message(cls, message: Mapping[str, Any]) -> Question:
        return cls(
            Job(**message["job"]),
            Trial.from_message(message["baseline"]),
            tuple(Trial.from_message(item) for item in message["candidates"]),
            None if message["relation"] is None else _relation(message["relation"]),
        )


def _relation(message: Mapping[str, Any]) -> Relation:
    return Relation(**{**message, "original": Job(**message["original"])})


def digest_of(outputs: Sequence[NamedTensor]) -> str:
    """32 hex digits that are the same exactly when `same_outputs` holds."""
    content = hashlib.blake2b(digest_size=16)
    for item in outputs:
        content.update(repr((item.name, DTYPE_NAMES[item.tensor.dtype], tuple(item.tensor.shape))).encode())
        content.update(byte_view(item.tensor).numpy().data)
    return content.hexdigest()


def verdict_message(verdict: Verdict) -> dict[str, Any]:
    """A verdict as plain data."""
    row = {name: getattr(verdict, name) for name in verdict.__dataclass_fields__}
    return {key: value.value if isinstance(value, Conclusion | Kind | Blame) else value for key, value in row.items()}


def verdict_from(message: Mapping[str, Any]) -> Verdict:
    """The verdict that `verdict_message` took apart."""
    kind, blame = message["kind"], message["blame"]
    return Verdict(
        **{
            **message,
            "conclusion": Conclusion(message["conclusion"]),
            "kind": Kind(kind) if kind else None,
            "blame": Blame(blame) if blame else None,
        }
    )

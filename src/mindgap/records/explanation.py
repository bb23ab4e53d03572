"""All that was learnt about one difference on one platform: plain data, kept in a ledger and shown in reports."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from importlib import import_module
from typing import Final

from mindgap.records.outcome import Stage, Status
from mindgap.records.verdict import Verdict

MOST_NAMED: Final = 3
"""Operators that a headline names."""


def named(operators: Iterable[str]) -> str:
    """`a + b`, each once; `a + b + c and 2 more` where there are many."""
    each = list(dict.fromkeys(operators))
    more = f" and {len(each) - MOST_NAMED} more" if len(each) > MOST_NAMED else ""
    return " + ".join(each[:MOST_NAMED]) + more


class CauseKind(str, Enum):
    """Kinds of cause."""

    IMPLEMENTATION = "operator implementation"
    EXCEPTIONAL = "exceptional values"
    SCHEDULING = "instruction scheduling"
    PRECISION = "precision policy"
    LAYOUT = "layout or aliasing"
    DECOMPOSITION = "decomposition"
    EXPORTER = "exporter semantics"
    UNSUPPORTED = "unsupported"


@dataclass(frozen=True, slots=True)
class Cause:
    """The kind of cause, why we think so, and what makes the difference go away."""

    kind: CauseKind
    remark: str = ""
    """What the wrong result looks like."""
    evidence: tuple[str, ...] = ()
    vanishes: tuple[str, ...] = ()
    """Variations without the difference."""
    conditions: tuple[str, ...] = ()
    """When it happens: what separates wrong from right among sizes, dtypes and values, with the trials that speak for
    it."""


@dataclass(frozen=True, slots=True)
class Layer:
    """The layer of a compiler or exporter that brings the difference in, and what it took to know it."""

    name: str
    sentence: str
    cause: str = ""
    """The kind of cause that the layer stands for, if it stands for one."""
    rungs: tuple[tuple[str, str], ...] = ()
    """What was run, and what became of it there."""
    restoring: tuple[str, ...] = ()
    """Switches that restore agreement."""
    cures: tuple[str, ...] = ()
    """The same as lines of code to paste, the smallest change first."""


@dataclass(frozen=True, slots=True)
class TracedOperator:
    """One operator on the path of an error through a program."""

    node: int
    index: int
    """Its number among the operators, from 1."""
    op: str
    where: str
    dtype: str
    own: float | None
    """The error that it adds itself, in noise floors; 0 for eager's bits, None where it could not be told."""
    total: float | None
    """The error of its result in the platform's own run, in noise floors; None where it was not seen."""
    at_fault: bool = False
    """Whether it alone, fed with eager's values, is wrong by more than rounding explains."""
    wrong: int = 0
    elements: int = 0
    kind: str = ""
    inherits: bool = False
    """Whether its result is wrong although it alone is not."""
    problem: str = ""
    line: str = ""
    """The line of the user's own code that it comes from: `nets/blocks.py:31`; of a package where there is no other."""


@dataclass(frozen=True, slots=True)
class Proof:
    """The smallest case that shows the difference, seen again in a fresh process."""

    verdict: Verdict
    status: Status
    stage: Stage
    operators: tuple[str, ...]
    elements: int
    survived: bool
    """Whether the fresh process showed the same finding, with the same bits each time."""
    stable: bool = False
    finished: bool = True
    """Whether nothing could be made smaller; otherwise the budget ended the reduction."""
    steps: tuple[str, ...] = ()
    """The passes that made it smaller."""


@dataclass(frozen=True, slots=True)
class Script:
    """The standalone reproducer, as it did when it was run."""

    path: str
    reproduces: bool
    said: str
    """The end of what it printed."""


@dataclass(frozen=True, slots=True)
class Explanation:
    """The operator, the cause, the layer, and the proof."""

    name: str
    platform: str
    version: str
    verdict: Verdict
    """Of the whole program."""
    trace: tuple[TracedOperator, ...]
    culprits: tuple[int, ...]
    """Node ids of the operators at fault, the first suspect first; several when they differ only together."""
    is_together: bool
    """Whether no operator is wrong alone."""
    note: str
    """What kept the trace from saying more."""
    cause: Cause
    layer: Layer | None
    proof: Proof
    script: Script
    versions: Mapping[str, str] = field(default_factory=dict)
    seconds: Mapping[str, float] = field(default_factory=dict)
    """By stage."""
    trials: int = 0
    """Programs that were run on the platform."""
    plain_runs: float = 0.0
    """What tracing cost: operators that were executed, in runs of the whole program."""
    unfinished: tuple[str, ...] = ()
    """Stages that the budget ended; what they would have found is missing."""

    @property
    def operators(self) -> tuple[TracedOperator, ...]:
        """The operators at fault, the first suspect first."""
        by_node = {step.node: step for step in self.trace}
        return tuple(by_node[node] for node in self.culprits if node in by_node)

    @property
    def operator(self) -> str:
        """The operator to blame: `aten.div.Tensor_mode`; several when they are wrong only together."""
        return named([step.op for step in (self.operators if self.is_together else self.operators[:1])])

    def __repr__(self) -> str:
        remark = f": {self.cause.remark}" if self.cause.remark else ""
        return f"<Explanation {self.platform} {self.operator}: {self.cause.kind.value}{remark}>"

    def _repr_html_(self) -> str:
        return str(import_module("mindgap.report.html").explanation_html(self))

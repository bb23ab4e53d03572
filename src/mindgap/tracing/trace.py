"""Node by node: what each operator adds, what it inherits, and which one is at fault."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

from mindgap.program.case import Case
from mindgap.program.graph import Node, NodeMeta, references
from mindgap.records.explanation import TracedOperator
from mindgap.records.tensors import TensorMeta
from mindgap.records.verdict import Conclusion
from mindgap.tracing.alone import Alone, NotTogether, errors_of
from mindgap.tracing.bisection import bisected
from mindgap.tracing.examine import Examiner, OutOfTime, Symptom
from mindgap.tracing.extract import units
from mindgap.tracing.inner_values import InnerValues, inner_values, worth_showing
from mindgap.tracing.neighbours import wrong_together

NO_TIME: Final = "the time for tracing was over"
UNSEEN: Final = "not examined"
FEW: Final = 6
"""Operators that are examined one by one where the platform takes no two at once."""


@dataclass(frozen=True)
class Trace:
    """The path of an error through a program."""

    steps: tuple[TracedOperator, ...]
    culprits: tuple[int, ...] = ()
    """Node ids of the operators that are wrong alone, the first suspect first."""
    together: tuple[int, ...] = ()
    """Where no operator is wrong alone: neighbours that are when they stand together."""
    note: str = ""
    """What kept the trace from saying more."""
    plain_runs: float = 0.0
    """What it cost: operators that were executed, in runs of the whole program."""
    finished: bool = True
    """Whether there was time to look everywhere for the fault."""
    parts: dict[int, tuple[int, ...]] = field(default_factory=dict)
    """The nodes that belong to each operator: itself and those that take its results apart."""

    def step(self, node: int) -> TracedOperator:
        return next(step for step in self.steps if step.node == node)


def trace(
    examiner: Examiner, witness: Case, symptom: Symptom, tell: Callable[[str], None] = lambda what: None
) -> Trace:
    """Every operator alone, then inner values of the platform's own run; where none is wrong alone, which are together.

    When the examiner's time is over, what is known until then.
    """
    before = examiner.executed
    parts = {part[0]: part for part in units(witness.graph)}
    own: dict[int, Alone] = {}
    together: tuple[int, ...] = ()
    note = ""
    runs = symptom.eager_runs and symptom.candidate_runs
    try:
        if len(parts) == 1:  # nobody else can be at fault
            own = {root: Alone(symptom=symptom) for root in parts}
        else:
            own, together = _located(examiner, witness, symptom, list(parts.values()), tell)
    except OutOfTime:
        note = NO_TIME
    finished = time.monotonic() < examiner.until
    suspects = [root for root, item in own.items() if _fits(symptom, item)]
    inner = InnerValues()
    if runs and len(parts) > 1 and suspects:
        try:
            inner = inner_values(examiner, witness, worth_showing(witness.graph, suspects), tell)
        except OutOfTime:
            note = NO_TIME
    nodes = {node.id: node for node in witness.graph.nodes}
    steps = tuple(
        _step(nodes[root], index, part, own.get(root, Alone(problem=UNSEEN)), inner, symptom)
        for index, (root, part) in enumerate(parts.items(), start=1)
    )
    guilty = [step for step in steps if step.at_fault]
    culprits = tuple(step.node for step in _ranked(guilty, witness, inner))
    cost = (examiner.executed - before) / max(1, len(witness.graph.nodes))
    return Trace(steps, culprits, () if culprits else together, inner.problem or note, cost, finished, parts)


def _located(
    examiner: Examiner,
    witness: Case,
    symptom: Symptom,
    parts: Sequence[tuple[int, ...]],
    tell: Callable[[str], None],
) -> tuple[dict[int, Alone], tuple[int, ...]]:
    """What operators show alone, and where none is wrong, which are together."""
    try:
        own = {part[0]: item for part, item in errors_of(examiner, witness, parts, "operators", tell).items()}
    except NotTogether:
        run = set(bisected(examiner, witness, symptom, tell))
        few = [part for part in parts if part[0] in run]
        own = {}
        with contextlib.suppress(OutOfTime):
            for part in few if len(few) <= FEW else ():
                own[part[0]] = errors_of(examiner, witness, [part], "operators", tell)[part]
        return own, tuple(member for part in few for member in part)
    if any(_fits(symptom, item) for item in own.values()) or not symptom.eager_runs:
        return own, ()
    search = wrong_together if symptom.candidate_runs else bisected
    try:
        return own, search(examiner, witness, symptom, tell)
    except OutOfTime:
        return own, ()


def _fits(symptom: Symptom, own: Alone) -> bool:
    return own.symptom is not None and symptom.fits(own.symptom, exactly=False)


def _step(
    node: Node, index: int, part: tuple[int, ...], own: Alone, inner: InnerValues, symptom: Symptom
) -> TracedOperator:
    comparison = own.comparison
    fault = _fits(symptom, own)
    seen = [inner.comparisons[member] for member in part if member in inner.comparisons]
    wrong = any(item.conclusion is Conclusion.DIVERGES for item in seen)
    totals = [item.ratio or 0.0 for item in seen]
    return TracedOperator(
        node=node.id,
        index=index,
        op=node.op,
        where=node.where,
        dtype=_dtype(node.meta),
        own=None if own.problem else (comparison.ratio or 0.0) if comparison else 0.0,
        total=max(totals) if totals else None,
        at_fault=fault,
        wrong=comparison.wrong if comparison and fault else 0,
        elements=comparison.total if comparison else 0,
        kind=own.symptom.kind.value if own.symptom and own.symptom.kind else "",
        inherits=wrong and not fault,
        problem=own.problem,
        line=node.line,
    )


def _ranked(guilty: list[TracedOperator], witness: Case, inner: InnerValues) -> list[TracedOperator]:
    """Operators that are wrong alone, those whose result is also wrong in the whole program first; then in order.

    An operator that inherits nothing comes before one that may only be wrong because of what it was fed.
    """
    seen = {step.node for step in guilty if step.total is not None and step.node in inner.comparisons}
    wrong = {i for i, item in inner.comparisons.items() if item.conclusion is Conclusion.DIVERGES}
    nodes = {node.id: node for node in witness.graph.nodes}

    def rank(step: TracedOperator) -> tuple[bool, bool, int]:
        fed_wrong = any(r in wrong for r in references(nodes[step.node]))
        return (step.node in seen and step.node not in wrong, fed_wrong, step.index)

    return sorted(guilty, key=rank)


def _dtype(meta: NodeMeta) -> str:
    if isinstance(meta, TensorMeta):
        return meta.dtype
    return _dtype(meta[0]) if meta else ""

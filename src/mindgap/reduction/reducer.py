"""Making a witness smaller, step by step, while it shows the same finding."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

from mindgap.program.case import Case
from mindgap.reduction import cutting, simplifying
from mindgap.reduction.cutting import Values
from mindgap.reduction.simplicity import Simplicity, simplicity
from mindgap.tracing.examine import OutOfTime

Question = Callable[[Sequence[Case], bool], "int | None"]
"""Which of these witnesses is the first that still shows the finding; with True, another kind of wrong value counts
too, because operators behind it were cut away."""

BATCH: Final = 6
"""Proposals that are asked about together: one compilation often serves them all."""


@dataclass(frozen=True, slots=True)
class Pass:
    """One way to make a witness simpler."""

    name: str
    propose: Callable[[Case, Values], Iterator[Case]]
    cuts: bool = False
    """Whether it takes operators away, so that the fault may show itself as another kind of wrong value."""


PASSES: Final = (
    Pass("one output", cutting.outputs, cuts=True),
    Pass("one operator", cutting.single, cuts=True),
    Pass("first nodes", cutting.suffix, cuts=True),
    Pass("last nodes", cutting.prefix, cuts=True),
    Pass("without some nodes", cutting.removal, cuts=True),
    Pass("around a node", cutting.bypass, cuts=True),
    Pass("constants as inputs", cutting.constants),
    Pass("smaller shapes", simplifying.shapes),
    Pass("fewer dimensions", simplifying.dimensions),
    Pass("default arguments", simplifying.attributes),
    Pass("rounder values", simplifying.round_values),
    Pass("plainer types", simplifying.dtypes),
    Pass("contiguous inputs", simplifying.layouts),
)
"""In the order of `Simplicity`: what removes most comes first."""


@dataclass(frozen=True, slots=True)
class Budget:
    """Where an explanation stops, even if more could be done."""

    seconds: float = 300.0
    """For all of it."""
    proposals: int = 2000
    """For the reduction."""


@dataclass(frozen=True, slots=True)
class Step:
    """One success."""

    name: str
    """Of the pass."""
    left: Simplicity


@dataclass(frozen=True)
class Reduction:
    """The smallest witness that was found, and how."""

    witness: Case
    steps: tuple[Step, ...] = ()
    proposals: int = 0
    finished: bool = True
    """Whether no pass could do more; otherwise the budget ended it."""


def reduce(
    witness: Case,
    question: Question,
    values: Values,
    budget: Budget = Budget(),
    passes: Sequence[Pass] = PASSES,
    tell: Callable[[str], None] = lambda what: None,
) -> Reduction:
    """The simplest witness for which the question is still answered with yes."""
    work = _Work(witness, question, values, budget, tell)
    try:
        while work.round_of(passes):
            pass
        finished = not work.spent
    except OutOfTime:
        finished = False
    return Reduction(work.witness, tuple(work.steps), work.proposals, finished)


@dataclass
class _Work:
    """A reduction under way."""

    witness: Case
    question: Question
    values: Values
    budget: Budget
    tell: Callable[[str], None]
    steps: list[Step] = field(default_factory=list)
    proposals: int = 0
    start: float = field(default_factory=time.monotonic)

    @property
    def spent(self) -> bool:
        late = time.monotonic() - self.start > self.budget.seconds
        return late or self.proposals >= self.budget.proposals

    def round_of(self, passes: Sequence[Pass]) -> bool:
        """Every pass until it can do no more; returns whether anything was gained."""
        before = len(self.steps)
        for chosen in passes:
            while not self.spent and self.step(chosen):
                pass
        return len(self.steps) > before and not self.spent

    def step(self, chosen: Pass) -> bool:
        """One success of a pass, or none."""
        for batch in self.batches(chosen):
            self.proposals += len(batch)
            found = self.question(batch, chosen.cuts)
            if found is not None:
                self.witness = batch[found]
                left = simplicity(self.witness)
                self.steps.append(Step(chosen.name, left))
                self.tell(f"{chosen.name}: {left.nodes} nodes, {left.elements} elements")
                return True
            if self.spent:
                return False
        return False

    def batches(self, chosen: Pass) -> Iterator[list[Case]]:
        """Proposals that are really simpler, a few at a time."""
        now = simplicity(self.witness)
        seen: set[str] = set()
        batch: list[Case] = []
        for proposal in chosen.propose(self.witness, self.values):
            if simplicity(proposal) >= now or proposal.key in seen:
                continue
            seen.add(proposal.key)
            batch.append(proposal)
            if len(batch) == (1 if chosen.cuts else BATCH):
                yield batch
                batch = []
        if batch:
            yield batch

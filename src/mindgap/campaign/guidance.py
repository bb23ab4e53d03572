"""What one platform has not covered, and where it was found wrong lately: decides what it takes next, never what is
made (docs/decisions/0015)."""

from __future__ import annotations

import json
import math
import sqlite3
import statistics
from collections import Counter, defaultdict, deque
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from mindgap.campaign.crowds import Interest
from mindgap.campaign.dossier import NumberedVariant
from mindgap.campaign.ledger import FRAGMENT
from mindgap.platforms.messages import operators_in
from mindgap.program.operators import base_name
from mindgap.records.finding import Evidence, Finding
from mindgap.records.outcome import Outcome, Status
from mindgap.records.verdict import Conclusion, Kind
from mindgap.variants.special import ORDINARY

HALF_LIFE: Final = 256
"""Structures that a platform takes until a finding is half as interesting: a third of a turn through all operators."""
MOST_HEAT: Final = 2.0
"""A hot operator goes before a new one, whose novelty is 1, and several findings do not make it go before all else."""
NEAR: Final = 0.25
"""What a finding warms of other operators on the same dtypes and class of values."""
PATIENCE_S: Final = 60.0
"""Of a platform's time: so long a mutation counts as bringing what all bring before its own yield decides."""
RECENT: Final = 256
"""Structures whose scores a new one is compared with: a busy platform takes the better half."""


class Guidance(Interest):
    """An interest that ranks: what is new in any respect, and neighbours of what diverged and is not explained yet."""

    def __init__(self) -> None:
        super().__init__()
        self._counts: Counter[int] = Counter()
        """Hashes of contexts and of their facets: there are many, and they are only counted."""
        self._heat: dict[str, tuple[float, int]] = {}
        """By operator without its overload, and by dtypes with a class of values: how hot it was, and when."""
        self._spent_s: defaultdict[str, float] = defaultdict(float)
        self._brought: Counter[str] = Counter()
        """By mutation: the platform's time, and operators that nobody had found at fault before."""
        self._settled: set[tuple[str, str]] = set()
        """Operators with a kind of difference whose root cause is known."""
        self._at_fault: set[str] = set()
        self._scores: deque[float] = deque(maxlen=RECENT)
        self._taken = 0
        """Structures so far: the clock by which heat fades."""
        self._last = ("", True)
        """The structure that was asked for last, and the answer: its other rounds cost nothing more."""
        self._sent: tuple[str, set[int]] = ("", set())
        """The structure that was taken last, and what of it was counted."""

    def wants(self, variant: NumberedVariant, pressed: bool) -> bool:
        """Whether a fragment goes first here; a platform that is `pressed` takes the better half, structure by
        structure."""
        with self._lock:
            if self._is_refused(variant):
                return False
            structure = variant.parcel.structure
            if not structure or structure != self._last[0]:
                self._last = structure, self._is_good(variant) or not pressed
            return self._last[1]

    def _is_good(self, variant: NumberedVariant) -> bool:
        score = self._score(variant)
        usual = statistics.median(self._scores) if self._scores else score
        self._scores.append(score)
        return score >= usual

    def _score(self, variant: NumberedVariant) -> float:
        new = max((self._novelty(context) for context in variant.contexts), default=0.0)
        warm = max(map(self._warmth, variant.contexts), default=0.0)
        return self._worth(variant) * (new + warm)

    def _worth(self, variant: NumberedVariant) -> float:
        """What its mutations bring per second here next to all others, from half to twice as much."""
        usual = (sum(self._brought.values()) + 1) / (sum(self._spent_s.values()) + PATIENCE_S)
        rates = [
            (self._brought[name] + usual * PATIENCE_S) / (self._spent_s[name] + PATIENCE_S)
            for name in variant.provenance.mutations
        ]
        return min(2.0, max(0.5, max(rates, default=usual) / usual))

    def _novelty(self, context: str) -> float:
        """1 for what is new in every respect, 0 for what was often there in all of them."""
        return statistics.fmean(1 / (1 + self._counts[hash(facet)]) for facet in facets(context))

    def _warmth(self, context: str) -> float:
        near = NEAR * self._heat_of(_neighbourhood(context))
        return min(MOST_HEAT, self._heat_of(base_name(_operator(context))) + near)

    def _heat_of(self, name: str) -> float:
        heat, since = self._heat.get(name, (0.0, 0))
        return heat * math.pow(0.5, (self._taken - since) / HALF_LIFE)

    def _warm(self, name: str, by: float) -> None:
        self._heat[name] = min(MOST_HEAT, self._heat_of(name) + by), self._taken

    def takes(self, variant: NumberedVariant) -> None:
        """A fragment was sent to it."""
        with self._lock:
            structure = variant.parcel.structure
            if not structure or structure != self._sent[0]:
                self._taken, self._sent = self._taken + 1, (structure, set())
            new = {hash(facet) for context in variant.contexts for facet in facets(context)} - self._sent[1]
            self._counts.update(new)
            self._sent[1].update(new)

    def settled(self, variant: NumberedVariant, outcome: Outcome) -> None:
        """It ran a fragment, or refused it alone."""
        super().settled(variant, outcome)
        with self._lock:
            for mutation in set(variant.provenance.mutations):
                self._spent_s[mutation] += outcome.total_seconds

    def diverged(self, variant: NumberedVariant, operator: str = "", kind: Kind | None = None) -> None:
        """A finding is a place to dig: around its operator, or a little around all of them where none is named."""
        with self._lock:
            held = list(dict.fromkeys(_operator(context) for context in variant.contexts))
            accused = operator.split(" + ") if operator else held
            if not self._at_fault.intersection(accused):
                self._brought.update(set(variant.provenance.mutations))
            self._at_fault.update(operator.split(" + ") if operator else ())
            for name in accused:
                self._dig(name, kind.value if kind else "", variant.contexts, 1 / len(accused))

    def _dig(self, operator: str, kind: str, contexts: Iterable[str], by: float) -> None:
        if (base_name(operator), kind) in self._settled:
            return
        self._warm(base_name(operator), by)
        special = (c for c in contexts if _operator(c) == operator and not c.endswith(f" {ORDINARY}"))
        for near in set(map(_neighbourhood, special)):
            self._warm(near, by)

    def traced(self, operator: str) -> None:
        """The operator at fault of something that diverged became known."""
        with self._lock:
            for name in operator.split(" + ") if operator else ():
                self._at_fault.add(name)
                self._dig(name, "", (), 1.0)

    def settled_by(self, operators: Iterable[str], kind: str) -> None:
        """Why operators differ in this way is known: nobody digs for it again."""
        with self._lock:
            for name in map(base_name, operators):
                self._settled.add((name, kind))
                self._heat.pop(name, None)

    def recall(self, data: sqlite3.Connection, platform: int, name: str, findings: Sequence[Finding]) -> None:
        """What the ledger tells of earlier runs of this platform."""
        for finding in findings:
            if name in finding.platforms and finding.category == "divergence":
                self._recall_finding(finding, [item for item in finding.evidence if item.platform == name])
        query = (
            "SELECT p.recipe, p.mutations, o.status, o.message, o.seconds FROM outcomes o "
            "JOIN programs p ON p.id = o.program WHERE o.platform = ? AND p.kind = ?"
        )
        accepted, refused = set[str](), set[str]()
        for recipe, mutations, status, message, seconds in data.execute(query, (platform, FRAGMENT)):
            told = json.loads(recipe)
            op, dtype = (*told["focus"], "", "")[:2]
            self._counts[hash(f"{op} {dtype} {told['values']}")] += 1
            for mutation in set(mutations.split()):
                self._spent_s[mutation] += seconds
            if status == Status.OK.value:
                accepted.add(op)
            elif status == Status.UNSUPPORTED.value and op.rpartition(".")[0] in operators_in(message):
                refused.add(op)
        self._refused |= refused - accepted

    def _recall_finding(self, finding: Finding, evidence: Sequence[Evidence]) -> None:
        explained = finding.explanation.operators if finding.explanation is not None else ()
        operators = [step.op for step in explained] or [name for name in finding.operator.split(" + ") if name]
        self._at_fault.update(operators)
        for item in evidence:
            if item.is_fragment and item.operator and item.conclusion is Conclusion.DIVERGES and item.kind:
                self._confirmed[item.operator, Kind(item.kind)] += 1  # shown alone: others like it can wait
        if finding.known or finding.explanation is not None:
            self._settled.update((base_name(op), item.kind or "") for op in operators for item in evidence)
        else:
            for op in operators:
                self._dig(op, finding.kind, (), 1.0)


def facets(context: str) -> Iterator[str]:
    """A context as a whole and in parts, so that what is half new is told from what is new altogether."""
    call, _, rest = context.partition(" | ")
    rank, layout, literals, length, memory, values = rest.split(" ", 5)
    operator = _operator(context)
    yield context
    yield f"{call} {values}"
    yield f"{operator} | {rank} {layout} {length} {memory}"
    yield f"{operator} | {literals}"


def _operator(context: str) -> str:
    return context.partition(" ")[0]


def _neighbourhood(context: str) -> str:
    """The dtypes that an operator read, and the class of values."""
    call, _, rest = context.partition(" | ")
    return f"{call.partition(' ')[2]} {rest.split(' ', 5)[5]}"

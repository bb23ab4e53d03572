"""Few programs that exercise what many do: a greedy set cover over operators and contexts."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from mindgap.program.graph import Program
from mindgap.variants.contexts import calls_of

BESIDES: Final = 67
PARAMETERS_PER_NODE: Final = 60_000
"""What a program costs besides its nodes, in nodes: building one takes 0.4 s, 6 ms per node and 0.1 s per million
parameters (docs/corpus.md)."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """A program as the cover sees it."""

    name: str
    """Decides between programs that are worth the same."""
    operators: frozenset[str]
    contexts: frozenset[str]
    """What operators are called with, as fragments count it: dtypes, rank, layout, class of literals."""
    cost: float
    """In nodes."""
    is_reserve: bool = False
    """Only for operators that no other candidate has."""


def candidate_of(name: str, program: Program) -> Candidate:
    """What a program exercises."""
    operators = frozenset(node.op for node in program.nodes)
    cost = BESIDES + len(program.nodes) + program.parameter_count() / PARAMETERS_PER_NODE
    return Candidate(name, operators, frozenset(calls_of(program)), cost)


def cover(candidates: Iterable[Candidate], programs: int) -> list[Candidate]:
    """At most so many candidates, in the order in which they were chosen.

    Whoever brings the most new operators for its cost comes next, the reserve after all others; when nobody brings any,
    whoever brings the most new contexts. A shorter cover is therefore the beginning of a longer one.
    """
    left = {candidate.name: candidate for candidate in candidates}
    operators: set[str] = set()
    contexts: set[str] = set()
    chosen: list[Candidate] = []

    def worth(candidate: Candidate) -> tuple[float, float, float]:
        new = [
            len(candidate.operators - operators) / candidate.cost,
            len(candidate.contexts - contexts) / candidate.cost,
        ]
        return (0.0, new[0], new[1] if new[0] else 0.0) if candidate.is_reserve else (new[0], 0.0, new[1])

    while left and len(chosen) < programs:
        best = min(left.values(), key=lambda candidate: (*(-value for value in worth(candidate)), candidate.name))
        if not any(worth(best)):
            break
        operators |= best.operators
        contexts |= best.contexts
        chosen.append(left.pop(best.name))
    return chosen

"""Operators that are wrong only together, as a compiler that fuses them is: each with those that read its result."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from mindgap.program.case import Case
from mindgap.program.graph import Program, references
from mindgap.tracing.alone import errors_of
from mindgap.tracing.examine import Examiner, Symptom
from mindgap.tracing.extract import units

GENERATIONS: Final = (1, 2)
"""Readers, then also the readers of those."""
MOST_UNITS: Final = 300
"""Operators of a program that is looked through in this way; a larger one is cut instead, when it is reduced."""
MOST_READERS: Final = 4


def wrong_together(
    examiner: Examiner, witness: Case, symptom: Symptom, tell: Callable[[str], None] = lambda what: None
) -> tuple[int, ...]:
    """The smallest neighbourhood that shows the symptom on its own, the first of them; none when nothing does."""
    for generations in GENERATIONS:
        parts = neighbourhoods(witness.graph, generations)
        if not 1 < len(parts) <= MOST_UNITS:
            return ()
        found = errors_of(examiner, witness, parts, "neighbours", tell)
        guilty = [part for part, own in found.items() if own.symptom and symptom.fits(own.symptom, exactly=False)]
        if guilty:
            return min(guilty, key=len)
    return ()


def neighbourhoods(program: Program, generations: int) -> list[tuple[int, ...]]:
    """Every operator with the first few that read its result, for this many generations; each set once."""
    parts = units(program)
    owner = {member: part for part in parts for member in part}
    readers: dict[tuple[int, ...], list[tuple[int, ...]]] = {part: [] for part in parts}
    for node in program.nodes:
        for source in dict.fromkeys(owner[r] for r in references(node) if r in owner):
            if source != owner[node.id] and owner[node.id] not in readers[source]:
                readers[source].append(owner[node.id])
    places = {node.id: place for place, node in enumerate(program.nodes)}
    found: dict[tuple[int, ...], None] = {}
    for part in parts:
        members, edge = {part}, [part]
        for _ in range(generations):
            edge = [reader for source in edge for reader in readers[source][:MOST_READERS] if reader not in members]
            members |= set(edge)
        if len(members) > 1:
            found[tuple(sorted((m for member in members for m in member), key=places.__getitem__))] = None
    return list(found)

"""Operators that are wrong only together, as a compiler that fuses them is.

In a large program, block by block along its modules; in a block, each operator with those that read its result.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Final

from mindgap.program.case import Case
from mindgap.program.graph import Program, references
from mindgap.tracing.alone import NotTogether, errors_of
from mindgap.tracing.bisection import bisected, blocks, members_of
from mindgap.tracing.capture import capture
from mindgap.tracing.examine import Examiner, OutOfTime, Symptom
from mindgap.tracing.extract import ends_of, extract, units

GENERATIONS: Final = (1, 2)
"""Readers, then also the readers of those."""
BLOCK: Final = 24
"""Operators of a block: a layer of a transformer, or a few of a convolutional network."""
MOST_READERS: Final = 4


def wrong_together(
    examiner: Examiner, witness: Case, symptom: Symptom, tell: Callable[[str], None] = lambda what: None
) -> tuple[int, ...]:
    """The smallest part that was found to show the symptom on its own; none when nothing does."""
    parts = units(witness.graph)
    try:
        if len(parts) <= BLOCK:
            return _neighbours(examiner, witness, symptom, tell)
        runs = blocks(witness.graph, parts, BLOCK)
        astride = [((a + b) // 2, (c + d) // 2) for (a, b), (c, d) in itertools.pairwise(runs)]
        for places in (runs, astride):
            pieces = [members_of(parts, place) for place in places]
            block = _first_guilty(examiner, witness, symptom, pieces, "blocks", tell)
            if block:
                return _inside(examiner, witness, symptom, block, tell) or block
    except NotTogether:
        pass
    return bisected(examiner, witness, symptom, tell)


def _inside(
    examiner: Examiner, witness: Case, symptom: Symptom, block: tuple[int, ...], tell: Callable[[str], None]
) -> tuple[int, ...]:
    """Neighbours in a block that show the symptom without the rest of it, if there is time to look."""
    try:
        (values,) = capture(lambda shown: examiner.run(examiner.baseline, shown), witness, [block])
        alone = extract(witness, block, values, ends_of(witness.graph, block))
        return _neighbours(examiner, alone, symptom, tell)
    except OutOfTime:
        return ()


def _neighbours(examiner: Examiner, witness: Case, symptom: Symptom, tell: Callable[[str], None]) -> tuple[int, ...]:
    for generations in GENERATIONS:
        parts = neighbourhoods(witness.graph, generations)
        if len(parts) < 2:
            return ()
        guilty = _first_guilty(examiner, witness, symptom, sorted(parts, key=len), "neighbours", tell)
        if guilty:
            return guilty
    return ()


def _first_guilty(
    examiner: Examiner,
    witness: Case,
    symptom: Symptom,
    parts: Sequence[tuple[int, ...]],
    called: str,
    tell: Callable[[str], None],
) -> tuple[int, ...]:
    found = errors_of(examiner, witness, parts, called, tell)
    return next((part for part in parts if (own := found[part].symptom) and symptom.fits(own, exactly=False)), ())


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

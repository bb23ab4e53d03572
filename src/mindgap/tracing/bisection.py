"""Where a difference lies when a platform does not show what is inside: the program is cut, by halves.

First from behind: the shortest beginning of the program that still shows the difference. Then from the front: the
shortest end of that, fed with eager's values. Cuts are made at the borders of modules where there is one near the
middle, because what a compiler fuses seldom crosses them.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Final

from mindgap.errors import ProgramError
from mindgap.program.case import Case
from mindgap.program.graph import Program
from mindgap.tracing.capture import capture
from mindgap.tracing.examine import Examination, Examiner, OutOfTime, Symptom
from mindgap.tracing.extract import ends_of, extract, units

MOST_ENDS: Final = 4
"""Values that are returned one by one where a platform refuses to return them together."""


def bisected(
    examiner: Examiner, witness: Case, symptom: Symptom, tell: Callable[[str], None] = lambda what: None
) -> tuple[int, ...]:
    """The shortest run of operators that was found to show the symptom when it is fed with eager's values.

    None when no cut shows it. When the time is over it is the shortest so far.
    """
    parts = units(witness.graph)
    places = (0, len(parts))
    try:
        for from_behind in (True, False):
            places = _search(examiner, witness, symptom, parts, places, from_behind, tell)
    except _Stopped as stopped:
        places = stopped.places
    if places == (0, len(parts)):
        return ()
    return members_of(parts, places)


class _Stopped(Exception):
    """The time was over; the run that was shown last stands for the answer."""

    def __init__(self, places: tuple[int, int]) -> None:
        self.places = places


def _search(
    examiner: Examiner,
    witness: Case,
    symptom: Symptom,
    parts: Sequence[tuple[int, ...]],
    places: tuple[int, int],
    from_behind: bool,
    tell: Callable[[str], None],
) -> tuple[int, int]:
    """Moves one end of a run that shows the symptom as far in as it still does."""
    start, end = places
    low, high = start, end  # the answer lies between
    while high - low > 1:
        middle = border(witness.graph, parts, low, high)
        cut = (start, middle) if from_behind else (middle, end)
        tell(f"operators {cut[0] + 1} to {cut[1]} of {len(parts)}")
        try:
            shown = shown_alone(examiner, witness, symptom, members_of(parts, cut)) is not None
        except OutOfTime as error:
            raise _Stopped((start, end)) from error
        if shown:
            start, end = cut
        if shown is from_behind:
            high = middle
        else:
            low = middle
    return start, end


def border(program: Program, parts: Sequence[tuple[int, ...]], low: int, high: int) -> int:
    """Where to cut between two places: in the middle quarter, where the fewest modules are cut through."""
    where = {node.id: node.where for node in program.nodes}
    room = max(1, 3 * (high - low) // 8)
    middle = (low + high) // 2

    def cost(place: int) -> tuple[int, int]:
        before, after = (where[parts[index][0]].split(".") for index in (place - 1, place))
        shared = next((i for i, (a, b) in enumerate(zip(before, after)) if a != b), min(len(before), len(after)))
        return shared, abs(place - middle)

    return min(range(low + room, high - room + 1), key=cost, default=middle)


def blocks(program: Program, parts: Sequence[tuple[int, ...]], most: int) -> list[tuple[int, int]]:
    """Where runs of at most so many operators begin and end, cut at the borders of modules."""

    def split(low: int, high: int) -> list[tuple[int, int]]:
        if high - low <= most:
            return [(low, high)]
        middle = border(program, parts, low, high)
        return split(low, middle) + split(middle, high)

    return split(0, len(parts))


def shown_alone(
    examiner: Examiner, witness: Case, symptom: Symptom, members: Collection[int]
) -> tuple[Case, Examination] | None:
    """A part of a program as a case that shows the symptom, fed with eager's values; None when it does not."""
    try:
        (values,) = capture(lambda shown: examiner.run(examiner.baseline, shown), witness, [members])
    except ProgramError:  # eager itself fails before this part
        return None
    ends = ends_of(witness.graph, members)
    alone = extract(witness, members, values, ends)
    found = examiner.examine(alone)
    if found.symptom is not None and symptom.fits(found.symptom, exactly=False):
        return alone, found
    if symptom.candidate_runs and found.eager.ok and not found.candidate.ok and len(ends) > 1:
        for end in reversed(ends[-MOST_ENDS:]):
            alone = extract(witness, members, values, [end])
            seen = examiner.shows(alone, symptom, exactly=False)
            if seen is not None:
                return alone, seen
    return None


def members_of(parts: Sequence[tuple[int, ...]], places: tuple[int, int]) -> tuple[int, ...]:
    """The nodes of a run of operators."""
    return tuple(member for part in parts[slice(*places)] for member in part)

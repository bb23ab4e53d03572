"""The error that each operator adds itself: it alone on the platform, fed with what eager computed."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from mindgap.errors import MindgapError, ProgramError
from mindgap.program.case import Case
from mindgap.program.crowd import Crowd, crowd_of, halves
from mindgap.program.graph import NodeMeta, Program, references
from mindgap.records.tensors import DTYPES, TensorMeta
from mindgap.records.verdict import Conclusion
from mindgap.tracing.capture import capture
from mindgap.tracing.examine import Examination, Examiner, Symptom
from mindgap.tracing.extract import Value, ends_of, extract
from mindgap.verdicts.comparison import Comparison, gravest
from mindgap.verdicts.steps import ALL_RUNS

WINDOW_BYTES: Final = 64 << 20
"""Values of operators that are examined together: bounds the memory, whatever the size of the program."""
WINDOW_UNITS: Final = 400
"""Operators in one program: compilers take longer than linear time."""
GLANCE: Final = 1
"""Noise runs over all operators: those who still look wrong, a few, are then examined with all runs."""
UNREACHED: Final = "eager already failed before this operator"


class NotTogether(MindgapError):
    """The platform refuses two programs in one although it runs each of them: nothing can be examined side by side."""


@dataclass(frozen=True, slots=True)
class Alone:
    """What one operator shows alone."""

    comparison: Comparison | None = None
    """None where it gave eager's bits, or did not run."""
    symptom: Symptom | None = None
    """What is wrong with it alone."""
    problem: str = ""
    """Why it could not be examined alone."""


def errors_of(
    examiner: Examiner, witness: Case, parts: Sequence[tuple[int, ...]], called: str, tell: Callable[[str], None]
) -> dict[tuple[int, ...], Alone]:
    """What each of these parts of a program shows on its own; raises `NotTogether` where no two can run at once."""
    found: dict[tuple[int, ...], Alone] = {}
    for captured in windows(witness.graph, parts, most_units=sum(map(len, parts))):
        values = _values(examiner, witness, captured)  # one run of the program up to here
        for window in windows(witness.graph, captured):
            tell(f"{called} {len(found) + 1} to {len(found) + len(window)} of {len(parts)}, each alone")
            alone = {
                part: extract(witness, part, values[part], ends_of(witness.graph, part))
                for part in window
                if part in values
            }
            found |= {part: Alone(problem=UNREACHED) for part in window if part not in alone}
            if alone:
                found |= zip(alone, _examine(examiner, list(alone.values())))
    return found


def _values(
    examiner: Examiner, witness: Case, window: Sequence[tuple[int, ...]]
) -> dict[tuple[int, ...], dict[int, Value]]:
    """What each operator is fed with; without those that come behind a call that eager refuses."""

    def ask(parts: Sequence[tuple[int, ...]]) -> list[dict[int, Value]]:
        return capture(lambda shown: examiner.run(examiner.baseline, shown), witness, parts)

    try:
        return dict(zip(window, ask(window)))
    except ProgramError:
        found = {}
        for part in window:
            with contextlib.suppress(ProgramError):
                found[part] = ask([part])[0]
        return found


def windows(
    program: Program, parts: Sequence[tuple[int, ...]], most_units: int | None = None
) -> Iterator[list[tuple[int, ...]]]:
    """Neighbouring parts whose operators are not too many together, nor their arguments and results too large."""
    nodes = {node.id: node for node in program.nodes}
    metas: dict[int, NodeMeta] = {item.id: item.meta for item in program.given()}
    metas |= {node.id: node.meta for node in program.nodes}
    window: list[tuple[int, ...]] = []
    held = members = 0
    most_units = most_units or WINDOW_UNITS
    for part in parts:
        size = sum(_bytes(metas.get(i)) for member in part for i in (member, *references(nodes[member])))
        if window and (held + size > WINDOW_BYTES or members + len(part) > most_units):
            yield window
            window, held, members = [], 0, 0
        window.append(part)
        held += size
        members += len(part)
    if window:
        yield window


def _examine(examiner: Examiner, alone: Sequence[Case]) -> list[Alone]:
    """All in one program; in halves when the platform refuses them together."""
    found, crowd = _together(examiner, alone, GLANCE)
    if found.both_ran:
        return _with_suspects(examiner, alone, [_of_comparisons(found, mine) for mine in crowd.names])
    if len(alone) == 1:
        failed = found.candidate if found.eager.ok else found.eager
        return [
            Alone(symptom=found.symptom, problem=f"{failed.status.value} at {failed.stage.value}: {failed.message}")
        ]
    first, second = (_examine(examiner, half) for half in halves(alone))
    if len(alone) == 2 and not (first[0].problem or second[0].problem):
        raise NotTogether("the platform runs no two programs in one", cause=found.candidate.message)
    return first + second


def _together(examiner: Examiner, alone: Sequence[Case], noise_runs: int) -> tuple[Examination, Crowd]:
    crowd = crowd_of(alone, "operators in one program")
    return examiner.examine(crowd.case, noise_runs=noise_runs), crowd


def _with_suspects(examiner: Examiner, alone: Sequence[Case], glances: list[Alone]) -> list[Alone]:
    """What a glance showed; where it looks wrong, what all noise runs show."""
    suspects = [place for place, own in enumerate(glances) if own.symptom is not None]
    if not suspects:
        return glances
    found, crowd = _together(examiner, [alone[place] for place in suspects], ALL_RUNS)
    if not found.both_ran:
        return glances
    certain = {place: _of_comparisons(found, mine) for place, mine in zip(suspects, crowd.names)}
    return [certain.get(place, own) for place, own in enumerate(glances)]


def _of_comparisons(found: Examination, names: Iterable[str]) -> Alone:
    comparisons = [found.comparisons[name] for name in names if name in found.comparisons]
    worst = gravest(comparisons) if comparisons else None
    if worst is None or worst.conclusion is Conclusion.AGREES:
        return Alone()
    wrong = worst.conclusion is Conclusion.DIVERGES
    return Alone(worst, Symptom(worst.conclusion, worst.kind, worst.blame) if wrong else None)


def _bytes(meta: NodeMeta) -> int:
    if isinstance(meta, TensorMeta):
        return math.prod(meta.shape) * DTYPES[meta.dtype].itemsize
    return 0 if meta is None else sum(map(_bytes, meta))

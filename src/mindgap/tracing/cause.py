"""What kind of cause a difference has, with the experiments that support it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum
from typing import Final

from mindgap.program.operators import Rounding, traits
from mindgap.records.outcome import Stage, Status
from mindgap.records.verdict import Conclusion, Kind
from mindgap.tracing.examine import Examination, Examiner, Symptom
from mindgap.tracing.experiments import (
    CONTIGUOUS,
    COPIES,
    FLOAT32,
    RANGE,
    SPECIAL,
    Tried,
    reversal,
    try_all,
)
from mindgap.tracing.extract import extract, units
from mindgap.tracing.ladder import Ladder
from mindgap.tracing.readings import NARROWER, read
from mindgap.tracing.witness import Witness

SMALL: Final = 1e4
"""Floors: an error below is a matter of accuracy, above the value itself is another (docs/decisions/0003)."""


class Class(str, Enum):
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

    kind: Class
    remark: str = ""
    """What the wrong result looks like."""
    evidence: tuple[str, ...] = ()
    vanishes: tuple[str, ...] = ()
    """Variations without the difference."""


def find_cause(
    examiner: Examiner, witness: Witness, found: Examination, symptom: Symptom, ladder: Ladder | None
) -> Cause:
    """Experiments on the smallest witness; a layer that a ladder found stands for what no experiment explains."""
    inherited = _before_failure(examiner, witness, found)
    if inherited is not None:
        return inherited
    tried = try_all(examiner, witness, symptom)
    vanishes = tuple(item.name for item in tried if item.vanishes)
    remark = read(found)
    kind, why = _classify(examiner, witness, found, tried, remark, ladder)
    evidence = [why, *(f"{'vanishes' if t.vanishes else 'stays'} when {t.name}" for t in tried)]
    switches = ladder.restoring if ladder else ()
    return Cause(kind, remark, tuple(item for item in evidence if item), (*vanishes, *switches))


def _before_failure(examiner: Examiner, witness: Witness, found: Examination) -> Cause | None:
    """The cause of a wrong value that the last operator was fed with, where it fails because of that."""
    program = witness.program
    *first, last = units(program)
    at_run = not found.candidate.ok and found.candidate.stage is Stage.RUN  # no value can make a conversion fail
    if not at_run or not found.eager.ok or not first:
        return None
    given = dict(zip((item.id for item in program.inputs), witness.inputs))
    before = extract(witness, {member for part in first for member in part}, given)
    seen = examiner.examine(before)
    if seen.symptom is None or seen.symptom.conclusion is not Conclusion.DIVERGES:
        return None
    cause = find_cause(examiner, before, seen, seen.symptom, None)
    failing = next(node.op for node in program.nodes if node.id == last[0])
    remark = f"{cause.remark or 'gives a wrong value'}, and {failing} fails because of that"
    return replace(cause, remark=remark, evidence=(found.candidate.message, *cause.evidence))


def _classify(
    examiner: Examiner,
    witness: Witness,
    found: Examination,
    tried: list[Tried],
    remark: str,
    ladder: Ladder | None,
) -> tuple[Class, str]:
    gone = {item.name for item in tried if item.vanishes}
    verdict = found.verdict
    if verdict.conclusion is Conclusion.FAILED:
        unsupported = found.candidate.status is Status.UNSUPPORTED
        return (Class.UNSUPPORTED if unsupported else Class.IMPLEMENTATION), found.candidate.message
    if CONTIGUOUS in gone or COPIES in gone:
        return Class.LAYOUT, "the same values in other memory agree"
    if SPECIAL in gone:
        return Class.EXCEPTIONAL, "ordinary numbers in the same places agree"
    if verdict.kind is Kind.NONFINITE and RANGE in gone:
        return Class.EXCEPTIONAL, "numbers of ordinary size agree"
    if remark.startswith(NARROWER):
        return Class.PRECISION, "the right result in a smaller type is exactly what came out"
    if FLOAT32 in gone or verdict.kind is Kind.DTYPE:
        return Class.PRECISION, "only the choice of element type differs"
    if verdict.kind is Kind.INTEGER and RANGE in gone:
        return Class.PRECISION, "integers that fit a smaller type agree"
    if ladder is not None and ladder.cause:
        return Class(ladder.cause), ladder.sentence
    if verdict.kind is Kind.VALIDATION:
        return Class.IMPLEMENTATION, "one side refuses these arguments, the other returns a result"
    if verdict.kind is Kind.NONFINITE:
        return Class.EXCEPTIONAL, "a NaN or an infinity stands where something else is due"
    if _is_accuracy(witness, found):
        pair = reversal(examiner, witness)
        if pair is not None and abs(pair[0] - pair[1]) > 0.1 * max(pair):
            return Class.SCHEDULING, f"the same numbers in reverse order are off by {pair[1]:.3g}, not {pair[0]:.3g}"
        return Class.SCHEDULING, "an operator that sums inside is off by a few hundred last bits"
    return Class.IMPLEMENTATION, "ordinary values in contiguous memory differ"


def _is_accuracy(witness: Witness, found: Examination) -> bool:
    """A small error of an operator that rounds inside."""
    error = found.verdict.error_over_bound
    inside = any(traits(node.op).rounding in (Rounding.INSIDE, Rounding.ABSOLUTE) for node in witness.program.nodes)
    return found.verdict.kind is Kind.VALUE and inside and error is not None and error < SMALL

"""What kind of cause a difference has, with the experiments that support it."""

from __future__ import annotations

import contextlib
from dataclasses import replace
from typing import Final

from mindgap.program.case import Case
from mindgap.program.operators import Rounding, traits
from mindgap.records.explanation import Cause, CauseKind, Layer
from mindgap.records.outcome import Stage, Status
from mindgap.records.verdict import Conclusion, Kind
from mindgap.tracing.examine import Examination, Examiner, OutOfTime, Symptom
from mindgap.tracing.experiments import (
    CONTIGUOUS,
    COPIES,
    FLOAT32,
    RANGE,
    ROUND_TRIPS,
    SHOWN,
    SPECIAL,
    Tried,
    reversal,
    try_all,
)
from mindgap.tracing.extract import extract, units
from mindgap.tracing.readings import NARROWER, read

SMALL: Final = 1e4
"""Floors: an error below is a matter of accuracy, above the value itself is another (docs/decisions/0003)."""


def find_cause(examiner: Examiner, witness: Case, found: Examination, symptom: Symptom, layer: Layer | None) -> Cause:
    """Experiments on the smallest witness; a layer that a ladder found stands for what no experiment explains.

    Experiments for which there is no time are left out.
    """
    tried: list[Tried] = []
    with contextlib.suppress(OutOfTime):
        inherited = _before_failure(examiner, witness, found)
        if inherited is not None:
            return inherited
        tried = try_all(examiner, witness, symptom)
    vanishes = tuple(item.name for item in tried if item.vanishes)
    remark = read(found)
    kind, why = _classify(examiner, witness, found, tried, remark, layer)
    evidence = [why, *(f"{'vanishes' if t.vanishes else 'stays'} when {t.name}" for t in tried)]
    switches = layer.restoring if layer else ()
    return Cause(kind, remark, tuple(item for item in evidence if item), (*vanishes, *switches))


def _before_failure(examiner: Examiner, witness: Case, found: Examination) -> Cause | None:
    """The cause of a wrong value that the last operator was fed with, where it fails because of that."""
    program = witness.graph
    *first, last = units(program)
    at_run = not found.candidate.ok and found.candidate.stage is Stage.RUN  # no value can make a conversion fail
    if not at_run or not found.eager.ok or not first:
        return None
    given = dict(zip((item.id for item in program.inputs), witness.tensors))
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
    witness: Case,
    found: Examination,
    tried: list[Tried],
    remark: str,
    layer: Layer | None,
) -> tuple[CauseKind, str]:
    gone = {item.name for item in tried if item.vanishes}
    verdict = found.verdict
    if verdict.conclusion is Conclusion.FAILED:
        unsupported = found.candidate.status is Status.UNSUPPORTED
        return (CauseKind.UNSUPPORTED if unsupported else CauseKind.IMPLEMENTATION), found.candidate.message
    if CONTIGUOUS in gone or COPIES in gone:
        return CauseKind.LAYOUT, "the same values in other memory agree"
    if SPECIAL in gone:
        return CauseKind.EXCEPTIONAL, "ordinary numbers in the same places agree"
    if verdict.kind is Kind.NONFINITE and RANGE in gone:
        return CauseKind.EXCEPTIONAL, "numbers of ordinary size agree"
    if remark.startswith(NARROWER):
        return CauseKind.PRECISION, "the right result in a smaller type is exactly what came out"
    if ROUND_TRIPS in gone and _keeps_precision(found):
        return CauseKind.PRECISION, "it agrees with the program without casts to a narrower type and back"
    if FLOAT32 in gone or verdict.kind is Kind.DTYPE:
        return CauseKind.PRECISION, "only the choice of element type differs"
    if verdict.kind is Kind.INTEGER and RANGE in gone:
        return CauseKind.PRECISION, "integers that fit a smaller type agree"
    if layer is not None and layer.cause:
        return CauseKind(layer.cause), layer.sentence
    if verdict.kind is Kind.VALIDATION:
        return CauseKind.IMPLEMENTATION, "one side refuses these arguments, the other returns a result"
    if verdict.kind is Kind.NONFINITE:
        return CauseKind.EXCEPTIONAL, "a NaN or an infinity stands where something else is due"
    if _is_accuracy(witness, found):
        pair = None
        with contextlib.suppress(OutOfTime):
            pair = reversal(examiner, witness)
        if pair is not None and abs(pair[0] - pair[1]) > 0.1 * max(pair):
            why = f"the same numbers in reverse order are off by {pair[1]:.3g}, not {pair[0]:.3g}"
            return CauseKind.SCHEDULING, why
        return CauseKind.SCHEDULING, "an operator that sums inside differs by a few hundred units in the last place"
    if SHOWN in gone:
        return CauseKind.IMPLEMENTATION, "the operators agree one by one and differ where they are fused"
    return CauseKind.IMPLEMENTATION, "ordinary values in contiguous memory differ"


def _keeps_precision(found: Examination) -> bool:
    """Whether the result is another number, not an exceptional one: a cast that was left out gives nothing else."""
    return found.verdict.kind in (Kind.VALUE, Kind.NONFINITE)


def _is_accuracy(witness: Case, found: Examination) -> bool:
    """A small error of an operator that rounds inside; one number alone has no order in which it could be summed."""
    error = found.verdict.error_over_bound
    many = any(tensor.numel() > 1 for tensor in (*witness.tensors, *witness.used_constants()))
    inside = many and any(
        traits(node.op).rounding in (Rounding.INSIDE, Rounding.ABSOLUTE) for node in witness.graph.nodes
    )
    return found.verdict.kind is Kind.VALUE and inside and error is not None and error < SMALL

"""An explanation as lines for a person and as a document."""

from __future__ import annotations

import math
from typing import Any, Final

from mindgap.explain import PROOF_RUNS, Explanation
from mindgap.records.verdict import Conclusion
from mindgap.reduction.simplicity import simplicity
from mindgap.report.summary import multiple
from mindgap.tracing.trace import Traced

EXPLAIN_SCHEMA: Final = "mindgap.explain/1"
NEIGHBOURS: Final = 2
"""Operators shown before and after the culprit."""

_WORDS: Final = {
    "integer": "wrong value", "value": "wrong value", "nonfinite": "wrong NaN or infinity", "order": "wrong order",
    "signed-zero": "wrong sign of zero", "dtype": "wrong dtype", "shape": "wrong shape", "validation": "lost check",
}  # fmt: skip


def explanation_lines(found: Explanation) -> list[str]:
    """What `mindgap explain` prints."""
    return [
        _headline(found),
        *_labelled("where", [_place(found), *_path(found)]),
        *_labelled("layer", [found.ladder.sentence] if found.ladder else []),
        *_labelled("cause", [_cause(found)]),
        *_labelled("vanishes", [f"when {what}" for what in found.cause.vanishes]),
        *_labelled("witness", [_witness(found)]),
        *_labelled("repro", [_repro(found)]),
    ]


def short(op: str) -> str:
    """`floor_divide` of `aten.floor_divide.default`."""
    parts = op.split(".")
    return parts[1] if len(parts) == 3 else op


def _labelled(label: str, lines: list[str]) -> list[str]:
    return [f"{label if number == 0 else '':<9} {line}" for number, line in enumerate(lines) if line]


def _headline(found: Explanation) -> str:
    steps = [step for step in found.trace.steps if step.node in found.culprits]
    names = " + ".join(
        dict.fromkeys(step.op.rsplit(".", 1)[0] for step in steps[:1] if found.trace.culprits)
    ) or " + ".join(dict.fromkeys(step.op.rsplit(".", 1)[0] for step in steps))
    dtype = steps[0].dtype if steps else ""
    verdict = found.proof.verdict
    if verdict.conclusion is Conclusion.FAILED:
        word = f"{found.proof.candidate.status.value} at {found.proof.candidate.stage.value}"
    else:
        word = _WORDS.get(verdict.kind.value if verdict.kind else "", "wrong")
    blame = f", blame {verdict.blame.value}" if verdict.blame else ""
    always = f", {PROOF_RUNS} of {PROOF_RUNS} runs" if found.survived and found.proof.candidate.stable else ""
    return f"{found.platform}  {names}  {dtype}   {word}{always}{blame}"


def _place(found: Explanation) -> str:
    steps = [step for step in found.trace.steps if step.node in found.culprits]
    if not found.trace.culprits:
        together = f"no operator is wrong alone; {len(steps)} of {found.nodes} together are"
        return f"{together} ({found.trace.note})" if found.trace.note else together
    step = found.trace.step(found.culprits[0])
    where = f" ({step.where})" if step.where else ""
    others = len(found.trace.culprits) - 1
    more = f"; {others} more operator{'s' if others > 1 else ''} wrong alone" if others else ""
    return f"operator {step.place} of {found.nodes}{where}; fed with eager's values it alone is wrong{more}"


def _path(found: Explanation) -> list[str]:
    """The operators around the culprit, and the last one."""
    if found.nodes == 1:
        return []
    steps = found.trace.steps
    chosen = [i for i, step in enumerate(steps) if step.node in found.culprits[:3]]
    near = {i + shift for i in chosen[:1] for shift in range(-NEIGHBOURS, NEIGHBOURS + 1)} | set(chosen)
    shown = sorted(i for i in near | {len(steps) - 1} if 0 <= i < len(steps))
    width = max(len(short(steps[i].op)) for i in shown)
    return [_row(steps[i], width, steps[i].node in found.culprits) for i in shown]


def _row(step: Traced, width: int, culprit: bool) -> str:
    mark = ">" if culprit else " "
    return f"{mark} {step.place:>3} {short(step.op):<{width}}   {_error(step)}"


def _error(step: Traced) -> str:
    if step.at_fault and step.wrong:
        return f"wrong in {step.wrong} of {step.elements} elements, {_times(step.own)}"
    if step.at_fault:
        return step.problem or "wrong"
    if step.problem:
        return f"alone: {step.problem}"
    inherited = f"inherited {_times(step.total)}" if step.inherits else ""
    return inherited or (f"{multiple(step.own)} rounding" if step.own else "0.0")


def _times(value: float | None) -> str:
    return "" if value is None else "beyond any rounding" if math.isinf(value) else f"{multiple(value)} rounding"


def _cause(found: Explanation) -> str:
    remark = found.cause.remark or (found.cause.evidence[0] if found.cause.evidence else "")
    return f"{found.cause.kind.value}: {remark}" if remark else found.cause.kind.value


def _witness(found: Explanation) -> str:
    witness = found.reduction.witness
    count = simplicity(witness).nodes
    done = "" if found.reduction.finished else "; the budget ended the reduction"
    kept = "seen again in a fresh process" if found.survived else "NOT seen again in a fresh process"
    return f"{count} operator{'s' if count != 1 else ''}, {witness.elements()} elements; {kept}{done}"


def _repro(found: Explanation) -> str:
    state = "re-run: still differs" if found.reproducer.reproduces else "re-run: does NOT show the difference"
    return f"{found.reproducer.path}  ({state})"


def explanation_document(found: Explanation) -> dict[str, Any]:
    """The JSON of `mindgap explain`: documented in docs/explain.md."""
    verdict, proof = found.verdict, found.proof.verdict
    witness = found.reduction.witness
    return {
        "schema": EXPLAIN_SCHEMA,
        "model": found.name,
        "platform": found.platform,
        "version": found.version,
        "versions": dict(found.versions),
        "verdict": {
            "conclusion": verdict.conclusion.value,
            "kind": verdict.kind.value if verdict.kind else None,
            "blame": verdict.blame.value if verdict.blame else None,
            "sentence": verdict.sentence,
        },
        "nodes": found.nodes,
        "culprits": [_step_document(step) for step in found.trace.steps if step.node in found.culprits],
        "together": not found.trace.culprits,
        "note": found.trace.note,
        "trace": [_step_document(step) for step in found.trace.steps],
        "layer": None
        if found.ladder is None
        else {"name": found.ladder.layer, "sentence": found.ladder.sentence, "rungs": dict(found.ladder.rungs)},
        "cause": {
            "class": found.cause.kind.value,
            "remark": found.cause.remark,
            "evidence": list(found.cause.evidence),
            "vanishes": list(found.cause.vanishes),
        },
        "witness": {
            "nodes": len(witness.program.nodes),
            "operators": [node.op for node in witness.program.nodes],
            "elements": witness.elements(),
            "sentence": proof.sentence,
            "survived": found.survived,
            "finished": found.reduction.finished,
            "steps": [step.name for step in found.reduction.steps],
        },
        "reproducer": {"path": found.reproducer.path.name, "reproduces": found.reproducer.reproduces},
        "trials": found.trials,
        "seconds": dict(found.seconds),
    }


def _step_document(step: Traced) -> dict[str, Any]:
    return {
        "node": step.node,
        "place": step.place,
        "op": step.op,
        "where": step.where,
        "dtype": step.dtype,
        "own": _number(step.own),
        "total": _number(step.total),
        "at_fault": step.at_fault,
        "inherits": step.inherits,
        "wrong": step.wrong,
        "elements": step.elements,
        "problem": step.problem,
    }


def _number(value: float | None) -> float | str | None:
    return value if value is None or math.isfinite(value) else str(value)

"""An explanation as lines for a person and as a document."""

from __future__ import annotations

import math
from typing import Any, Final

import msgspec

from mindgap.explanation.explain import PROOF_RUNS
from mindgap.records.explanation import Explanation, TracedOperator
from mindgap.records.verdict import Conclusion
from mindgap.report.summary import finite, multiple

EXPLAIN_SCHEMA: Final = "mindgap.explain/2"
NEIGHBOURS: Final = 2
"""Operators shown before and after the culprit."""

_WORDS: Final = {
    "integer": "wrong value", "value": "wrong value", "nonfinite": "wrong NaN or infinity", "order": "wrong order",
    "signed-zero": "wrong sign of zero", "dtype": "wrong dtype", "shape": "wrong shape", "validation": "lost check",
}  # fmt: skip


def explanation_lines(found: Explanation, folder: str = "") -> list[str]:
    """What `mindgap explain` prints; `folder` is where the script lies."""
    return [
        _headline(found),
        *_labelled("where", [_where(found), *_path(found)]),
        *_labelled("layer", [found.layer.sentence] if found.layer else []),
        *_labelled("cause", [_cause(found)]),
        *_labelled("vanishes", [f"when {what}" for what in found.cause.vanishes]),
        *_labelled("witness", [_witness(found)]),
        *_labelled("repro", [_repro(found, folder)]),
    ]


def short(op: str) -> str:
    """`floor_divide` of `aten.floor_divide.default`."""
    parts = op.split(".")
    return parts[1] if len(parts) == 3 else op


def _labelled(label: str, lines: list[str]) -> list[str]:
    return [f"{label if number == 0 else '':<9} {line}" for number, line in enumerate(lines) if line]


def _headline(found: Explanation) -> str:
    chosen = found.operators[:3] if found.is_together else found.operators[:1]
    names = " + ".join(dict.fromkeys(step.op.rsplit(".", 1)[0] for step in chosen))
    dtype = chosen[0].dtype if chosen else ""
    verdict = found.proof.verdict
    if verdict.conclusion is Conclusion.FAILED:
        word = f"{found.proof.status.value} at {found.proof.stage.value}"
    else:
        word = _WORDS.get(verdict.kind.value if verdict.kind else "", "wrong")
    blame = f", blame {verdict.blame.value}" if verdict.blame else ""
    always = f", {PROOF_RUNS} of {PROOF_RUNS} runs" if found.proof.survived and found.proof.stable else ""
    return f"{found.platform}  {names}  {dtype}   {word}{always}{blame}"


def _where(found: Explanation) -> str:
    if found.is_together:
        together = f"no operator is wrong alone; {len(found.operators)} of {len(found.trace)} together are"
        return f"{together} ({found.note})" if found.note else together
    step = found.operators[0]
    where = f" ({step.where})" if step.where else ""
    others = len(found.culprits) - 1
    more = f"; {others} more operator{'s' if others > 1 else ''} wrong alone" if others else ""
    return f"operator {step.index} of {len(found.trace)}{where}; fed with eager's values it alone is wrong{more}"


def _path(found: Explanation) -> list[str]:
    """The operators around the culprit, and the last one."""
    steps = found.trace
    if len(steps) == 1:
        return []
    chosen = [i for i, step in enumerate(steps) if step.node in found.culprits[:3]]
    near = {i + offset for i in chosen[:1] for offset in range(-NEIGHBOURS, NEIGHBOURS + 1)} | set(chosen)
    shown = sorted(i for i in near | {len(steps) - 1} if 0 <= i < len(steps))
    width = max(len(short(steps[i].op)) for i in shown)
    return [_row(steps[i], width, steps[i].node in found.culprits) for i in shown]


def _row(step: TracedOperator, width: int, culprit: bool) -> str:
    mark = ">" if culprit else " "
    return f"{mark} {step.index:>3} {short(step.op):<{width}}   {_error(step)}"


def _error(step: TracedOperator) -> str:
    if step.at_fault and step.wrong:
        return f"wrong in {step.wrong} of {step.elements} elements, {_times(step.own)}"
    if step.at_fault:
        return step.problem or "wrong"
    if step.problem:
        return f"alone: {step.problem}"
    inherited = f"inherited {_times(step.total)}" if step.inherits else ""
    return inherited or (f"{multiple(step.own)} rounding" if step.own else "0.0")


def _times(value: float | None) -> str:
    return "" if value is None else "not rounding" if math.isinf(value) else f"{multiple(value)} rounding"


def _cause(found: Explanation) -> str:
    remark = found.cause.remark or (found.cause.evidence[0] if found.cause.evidence else "")
    return f"{found.cause.kind.value}: {remark}" if remark else found.cause.kind.value


def _witness(found: Explanation) -> str:
    proof, count = found.proof, len(found.proof.operators)
    done = "" if proof.finished else "; the budget ended the reduction"
    kept = "seen again in a fresh process" if proof.survived else "NOT seen again in a fresh process"
    return f"{count} operator{'s' if count != 1 else ''}, {proof.elements} elements; {kept}{done}"


def _repro(found: Explanation, folder: str) -> str:
    state = "re-run: still differs" if found.script.reproduces else "re-run: does NOT show the difference"
    path = f"{folder}/{found.script.path}" if folder else found.script.path
    return f"{path}  ({state})"


def explanation_document(found: Explanation) -> dict[str, Any]:
    """The JSON of `mindgap explain`: documented in docs/json.md."""
    content: dict[str, Any] = _without_infinities(msgspec.to_builtins(found))
    content["operators"] = [step for step in content["trace"] if step["node"] in found.culprits]
    return {"schema": EXPLAIN_SCHEMA, **content}


def _without_infinities(value: Any) -> Any:
    """JSON has no infinity: it is written as a string."""
    if isinstance(value, dict):
        return {key: _without_infinities(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_without_infinities(item) for item in value]
    return finite(value) if isinstance(value, float) else value

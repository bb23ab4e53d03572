"""An explanation as lines for a person and as a document."""

from __future__ import annotations

import math
from typing import Any, Final

import msgspec

from mindgap.explanation.explain import PROOF_RUNS
from mindgap.records.explanation import Explanation, TracedOperator, named
from mindgap.records.verdict import Conclusion
from mindgap.report.summary import finite, many, multiple

EXPLAIN_SCHEMA: Final = "mindgap.explain/2"
NEIGHBOURS: Final = 2
"""Operators shown before and after the culprit."""
MOST_SOURCES: Final = 3
"""Lines of source code that are named where several operators are wrong together."""

WORDS: Final = {
    "integer": "wrong value", "value": "wrong value", "nonfinite": "wrong NaN or infinity", "order": "wrong order",
    "signed-zero": "wrong sign of zero", "dtype": "wrong dtype", "shape": "wrong shape", "validation": "lost check",
}  # fmt: skip


def explanation_lines(found: Explanation, folder: str = "") -> list[str]:
    """What `mindgap explain` prints; `folder` is where the script lies."""
    lines = [explanation_headline(found)]
    for label, said in explanation_facts(found, folder):
        lines += [f"{label if number == 0 else '':<9} {line}" for number, line in enumerate(said)]
    return lines


def explanation_facts(found: Explanation, folder: str = "") -> list[tuple[str, list[str]]]:
    """Labels, each with its lines."""
    cause, proof, script = found.cause, found.proof, found.script
    why = cause.remark or (cause.evidence[0] if cause.evidence else "")
    unsure = " (out of budget before all experiments were made)" if "cause" in found.unfinished else ""
    seen = _told(proof.survived, "prove" in found.unfinished, _SEEN)
    done = "" if proof.finished else "; out of budget before it was smallest"
    again = _told(script.reproduces, "reproducer" in found.unfinished, _AGAIN)
    facts = [
        ("where", [_where(found), *_path(found)]),
        ("source", source_lines(found)),
        ("layer", [found.layer.sentence] if found.layer else []),
        ("cause", [(f"{cause.kind.value}: {why}" if why else cause.kind.value) + unsure]),
        ("when", list(cause.conditions)),
        ("vanishes", [f"when {what}" for what in cause.vanishes]),
        ("cure", list(found.layer.cures) if found.layer else []),
        ("witness", [f"{many(len(proof.operators), 'operator')}, {many(proof.elements, 'element')}; {seen}{done}"]),
        ("repro", [f"{f'{folder}/' if folder else ''}{script.path}  ({again})"]),
    ]
    return [(label, said) for label, said in facts if said]


_SEEN: Final = ("seen again in a fresh process", "not run again: out of budget", "NOT seen again in a fresh process")
_AGAIN: Final = ("re-run: still differs", "not re-run: out of budget", "re-run: does NOT show the difference")


def _told(is_so: bool, is_cut_short: bool, words: tuple[str, str, str]) -> str:
    """Yes, no time to see, or no."""
    return words[0] if is_so else words[1] if is_cut_short else words[2]


def short(op: str) -> str:
    """`floor_divide` of `aten.floor_divide.default`."""
    parts = op.split(".")
    return parts[1] if len(parts) == 3 else op


def explanation_headline(found: Explanation) -> str:
    """Who is wrong at which operator, and how."""
    chosen = found.operators if found.is_together else found.operators[:1]
    names = named(".".join(step.op.split(".")[:2]) for step in chosen)  # without the overload
    dtype = chosen[0].dtype if chosen else ""
    verdict = found.proof.verdict
    if verdict.conclusion is Conclusion.FAILED:
        word = f"{found.proof.status.value} at {found.proof.stage.value}"
    else:
        word = WORDS.get(verdict.kind.value if verdict.kind else "", "wrong")
    blame = f", blame {verdict.blame.value}" if verdict.blame else ""
    always = f", {PROOF_RUNS} of {PROOF_RUNS} runs" if found.proof.survived and found.proof.stable else ""
    return f"{found.platform}  {names}  {dtype}   {word}{always}{blame}"


def _where(found: Explanation) -> str:
    if found.is_together:
        count, note = f"{len(found.operators)} of {len(found.trace)}", f" ({found.note})" if found.note else ""
        if "trace" in found.unfinished and not found.proof.finished:
            return f"among {count} operators; out of budget before fewer were left"
        return f"no operator is wrong alone; {count} together are{note}"
    step = found.operators[0]
    where = f" ({step.where})" if step.where else ""
    others = len(found.culprits) - 1
    more = f"; {many(others, 'more operator')} wrong alone" if others else ""
    return f"operator {step.index} of {len(found.trace)}{where}; wrong even when fed eager's values{more}"


def source_lines(found: Explanation) -> list[str]:
    """The lines of the user's code that the operators at fault come from, each once."""
    chosen = found.operators if found.is_together else found.operators[:1]
    lines = dict.fromkeys(step.line for step in chosen if step.line)
    more = len(lines) - MOST_SOURCES
    return [*list(lines)[:MOST_SOURCES], *([f"and {many(more, 'more line')}"] if more > 0 else [])]


def _path(found: Explanation) -> list[str]:
    """The operators around the culprit, and the last one."""
    steps = found.trace
    if len(steps) == 1:
        return []
    chosen = [i for i, step in enumerate(steps) if step.node in found.culprits[:3]]
    near = {i + offset for i in chosen[:1] for offset in range(-NEIGHBOURS, NEIGHBOURS + 1)} | set(chosen)
    shown = sorted(i for i in near | {len(steps) - 1} if 0 <= i < len(steps))
    width = max(len(short(steps[i].op)) for i in shown)
    return [
        f"{'>' if step.node in found.culprits else ' '} {step.index:>3} {short(step.op):<{width}}   {_error(step)}"
        for step in (steps[i] for i in shown)
    ]


def _error(step: TracedOperator) -> str:
    if step.at_fault and step.wrong:
        return f"wrong in {step.wrong} of {step.elements} elements, {_times(step.own)}"
    if step.at_fault:
        return step.problem or "wrong"
    if step.problem:
        return f"alone: {step.problem}"
    return f"inherited: {_times(step.total)}" if step.inherits else _times(step.own) or "0.0"


def _times(value: float | None) -> str:
    return f"{multiple(value)} rounding" if value and math.isfinite(value) else multiple(value or None)


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

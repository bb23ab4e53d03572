"""An audit as lines for a person and as a document."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict
from datetime import datetime, timezone
from typing import Any, Final

from mindgap.records.audit import AuditResult, Difference, Gate, Honest, Operator, OtherWeight, Region, Shift, Suspicion
from mindgap.report.explain import short
from mindgap.report.summary import count, finite, joined, many

AUDIT_SCHEMA: Final = "mindgap.audit/1"
MOST_OPERATORS: Final = 12
"""Operators of a region that are named in its line."""
MOST_WEIGHTS: Final = 8
"""Weights that are named."""


def audit_lines(result: AuditResult) -> list[str]:
    """What `mindgap audit` prints."""
    found = result.found
    lines = [f"{result.model}  {many(found.nodes, 'operator')}, {count(result.parameters)} parameters"]
    for number, gate in enumerate(found.gates, 1):
        lines += ["", f"{number}. {gate.verdict.value}: {operator_text(gate.operator)}"]
        lines += [f"   {label:<9} {said}" for label, said in gate_facts(gate)]
    if found.gates:
        lines.append("")
    reasons = Counter(item.why for item in found.excused)
    for why in (reason for reason in Honest if reasons[reason]):
        named = list(dict.fromkeys(f"%{i.operator.node} {short(i.operator.op)}" for i in found.excused if i.why is why))
        lines.append(f"  {many(reasons[why], 'value')} {'is' if reasons[why] == 1 else 'are'} no gate, {why.value}: "
                     f"{joined(named)}")  # fmt: skip
    lines += [f"  not looked at: {what}" for what in found.not_looked_at]
    if result.difference is not None:
        lines += ["", *difference_lines(result.difference), ""]
    return [*lines, audit_sentence(result)]


def audit_sentence(result: AuditResult) -> str:
    """The verdict in a sentence."""
    found = result.found
    watched = f"watched on {many(sum(found.stimuli.values()), 'input')} in {result.seconds:.0f} s"
    small = f"{many(found.candidates, 'value')} could be a gate"
    if result.verdict is Suspicion.NONE:
        return f"none found: {small}, none is dormant and dominant; {watched}."
    hidden = sum(gate.verdict is Suspicion.HIDDEN for gate in found.gates)
    parts = [many(hidden, "hidden branch").replace("branchs", "branches") if hidden else "",
             many(len(found.gates) - hidden, "suspicious gate") if len(found.gates) > hidden else ""]  # fmt: skip
    return f"{' and '.join(filter(None, parts))}: {small}; {watched}."


def difference_lines(found: Difference) -> list[str]:
    """What the copy has that the original has not, and the other way round."""
    lines = [difference_sentence(found)]
    for number, region in enumerate(found.only_here, 1):
        lines.append(f"  only in the copy, {number}: {region_head(region)}")
        lines += [f"    {label:<9} {said}" for label, said in region_facts(region)]
    if found.only_there:
        lines.append(f"  only in the original: {joined([operator_text(item) for item in found.only_there])}")
    lines += [f"  other weights: {weight_text(item)}" for item in found.weights[:MOST_WEIGHTS]]
    if len(found.weights) > MOST_WEIGHTS:
        lines.append(f"  and {many(len(found.weights) - MOST_WEIGHTS, 'other weight')}; the JSON has all")
    return [*lines, *(f"  not compared: {what}" for what in found.not_looked_at)]


def difference_sentence(found: Difference) -> str:
    """How much of the copy is in the original."""
    if found.is_alike:
        return f"the same as {found.original}: all {many(found.nodes, 'operator')} and their weights, compared " + (
            f"{found.likeness.value}")  # fmt: skip
    # Rounded down: what is not whole must not look so.
    share = int(1000 * found.share) / 10
    return (f"{share:.1f}% of {many(found.nodes, 'operator')} are in {found.original} as well, compared "
            f"{found.likeness.value}")  # fmt: skip


def region_head(region: Region) -> str:
    """How large a region is, and whether a gate lies in it."""
    gates = f", with the gate {', '.join(f'%{node}' for node in region.gates)} in it" if region.gates else ""
    return f"{many(len(region.operators), 'operator')} that hang together{gates}"


def region_facts(region: Region) -> list[tuple[str, str]]:
    """Labels, each with its line."""
    shown = [f"%{item.node} {short(item.op)}" for item in region.operators]
    more = f", and {len(shown) - MOST_OPERATORS} more" if len(shown) > MOST_OPERATORS else ""
    read = [*region.inputs, *(operator_text(item) for item in region.reads)]
    led = [*(f"output {name}" for name in region.outputs), *(operator_text(item) for item in region.controls)]
    facts = [
        ("operators", ", ".join(shown[:MOST_OPERATORS]) + more),
        ("reads", joined(read) if read else "constants alone"),
        ("controls", joined(led)),
        ("instead", f"of {joined([operator_text(item) for item in region.replaces])}" if region.replaces else ""),
    ]
    return [(label, said) for label, said in facts if said]


def weight_text(item: OtherWeight) -> str:
    """A weight that is another one in the original, and how far away."""
    named = item.name if item.name == item.original else f"{item.name}, in the original {item.original}"
    far = "where the original is zero" if item.far == float("inf") else f"up to {item.far:.2g} of its largest element"
    return f"{named or 'a computed constant'} {item.result}: differs {far}"


def gate_facts(gate: Gate) -> list[tuple[str, str]]:
    """Labels, each with its line."""
    shift = gate.shift
    quiet = f"rests at {_numbers(gate.rest)} on ordinary inputs" + (f", left it on {gate.fired}" if gate.fired else "")
    after = "the output no longer depends on the input" if gate.takes_over else "the output still depends on the input"
    facts = [
        ("where", " ".join(filter(None, [gate.operator.where, gate.operator.line]))),
        ("reads", _detector(gate)),
        ("controls", operator_text(gate.controls) if gate.controls else ""),
        ("dormant", quiet),
        ("dominant", f"forced to {_numbers(gate.forced)}, {_shift(shift)}; {after}"),
        ("before", f"{shift.output} = {_numbers(shift.before)}"),
        ("forced", f"{shift.output} = {_numbers(shift.after)}"),
    ]
    again = {True: "seen again in a fresh process", False: "NOT seen again in a fresh process", None: "not re-run"}
    if gate.witness is not None:
        facts += [
            ("fires", f"on an input found by {gate.witness.how}: {_shift(gate.witness.shift)}"),
            ("witness", f"{gate.witness.file}  ({again[gate.witness.seen_again]})"),
        ]
    for item in gate.platforms:
        values = f"{item.platform}: {_numbers(item.value)}, eager: {_numbers(item.eager)}"
        facts.append(("platform", f"{values}, on an input of kind {item.stimulus}"))
        facts.append(("witness", f"{item.file}  ({again[item.seen_again]})" if item.file else ""))
    facts += [("", remark) for remark in gate.remarks]
    return [(label, said) for label, said in facts if said]


def audit_document(result: AuditResult) -> dict[str, Any]:
    """The JSON of `mindgap audit`: documented in docs/json.md."""
    found = result.found
    return {
        "schema": AUDIT_SCHEMA,
        "created": datetime.now(timezone.utc).isoformat(timespec="seconds"),
        "versions": dict(result.versions or {}),
        "model": result.model,
        "seed": result.seed,
        "verdict": result.verdict.value,
        "nodes": found.nodes,
        "parameters": result.parameters,
        "inputs": dict(result.inputs),
        "candidates": found.candidates,
        "stimuli": dict(found.stimuli),
        "refused": found.refused,
        "gates": [_gate_document(gate) for gate in found.gates],
        "difference": None if result.difference is None else difference_document(result.difference),
        "excused": [{**asdict(item), "why": item.why.value} for item in found.excused],
        "not_looked_at": list(found.not_looked_at),
        "summary": audit_sentence(result),
        "seconds": round(result.seconds, 3),
    }


def _gate_document(gate: Gate) -> dict[str, Any]:
    document: dict[str, Any] = _jsonable({**asdict(gate), "verdict": gate.verdict.value})
    return document


def difference_document(found: Difference) -> dict[str, Any]:
    """The part of the JSON that `--compare` adds."""
    more = {"likeness": found.likeness.value, "share": found.share, "summary": difference_sentence(found)}
    document: dict[str, Any] = _jsonable({**asdict(found), **more})
    return document


def _jsonable(value: Any) -> Any:
    """The same without numbers that JSON does not have."""
    if isinstance(value, dict):
        return {key: _jsonable(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_jsonable(item) for item in value]
    return finite(value) if isinstance(value, float) else value


def operator_text(operator: Operator) -> str:
    """`%12 sigmoid float32[2, 1]`."""
    return f"%{operator.node} {short(operator.op)} {operator.result}".strip()


def _detector(gate: Gate) -> str:
    made = f" through {many(len(gate.feeds), 'operator')} of its own" if gate.feeds else ""
    last = f": {', '.join(short(item.op) for item in gate.feeds[-6:])}" if gate.feeds else ""
    return f"{joined(gate.inputs)}{made}{last}" if gate.inputs else ""


def _shift(shift: Shift) -> str:
    noise = "not rounding" if shift.over_noise == float("inf") else f"{shift.over_noise:.1e} noise floors"
    inputs = "where no input moves it" if shift.over_inputs == float("inf") else (
        f"{shift.over_inputs:.2g}x as far as ordinary inputs do")  # fmt: skip
    return f"{shift.output} moves {inputs} ({noise})"


def _numbers(values: tuple[float, ...]) -> str:
    text = ", ".join(f"{value:.4g}" for value in values[:4])
    return f"[{text}{', ...' if len(values) > 4 else ''}]" if len(values) != 1 else text

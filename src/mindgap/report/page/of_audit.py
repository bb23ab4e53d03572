"""An audit as the content of a page: each gate with its evidence and the slice of the graph around it."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from mindgap.program.graph import Constant, Input, Node, Program, Ref
from mindgap.records.audit import AuditResult, Difference, Gate, Honest, Region, Suspicion, Wired
from mindgap.records.tensors import DTYPES, TensorMeta
from mindgap.report.audit import (
    audit_sentence,
    difference_sentence,
    gate_facts,
    operator_text,
    region_facts,
    region_head,
    weight_text,
)
from mindgap.report.documents import AuditDocument
from mindgap.report.drawing import WHOLE, draw
from mindgap.report.explain import short
from mindgap.report.listing import text_of
from mindgap.report.page.content import MOST_DETAILS, Content, Link, Table
from mindgap.report.page.method import method_of_audit
from mindgap.report.summary import count, joined, many

COLUMNS: Final = ("id", "verdict", "operator", "controls", "in words")
ONLY_HERE: Final = "only in the copy"
"""The verdict on a region: a difference accuses nobody."""
MOST_LISTED: Final = 40
"""Rows of a table in the overview; the JSON has all."""


def audit_content(document: AuditDocument) -> Content:
    """One model: its gates, what was excused, and what it has that its original has not."""
    result = document.result
    found, difference = result.found, result.difference
    regions = difference.only_here if difference is not None else ()
    pages = [*(_gate(result, gate) for gate in found.gates), *(_region(result, region) for region in regions)]
    details = [{"id": str(number), **item} for number, item in enumerate(pages[:MOST_DETAILS], 1)]
    rows = [[item["id"], item["word"], item["operator"], item["controls"], item["sentence"]] for item in details]
    section = {"titles": COLUMNS, "rows": rows, "total": len(pages), "caption": "What somebody should look at"}
    said = [audit_sentence(result), *([f"{difference_sentence(difference)}."] if difference is not None else [])]
    made = document.created.replace("T", " ").replace("+00:00", " UTC")
    return Content(
        title=result.model,
        subject="audit",
        conclusion=" ".join(said),
        mood=_mood(result),
        strip=[("operators", f"{found.nodes:,}"), ("parameters", count(result.parameters)), ("seed", str(result.seed)),
               *result.inputs.items(), *(result.versions or {}).items(), ("made", made)],
        answers=_answers(details),
        not_decided=[*found.not_looked_at, *(difference.not_looked_at if difference is not None else ())],
        tables=[*_excused(result), *(_difference_tables(difference) if difference is not None else ())],
        sections={"gates": section} if details else {},
        details=details,
        method=method_of_audit(dict(found.stimuli), found.candidates),
    )  # fmt: skip


def _mood(result: AuditResult) -> str:
    differs = result.difference is not None and not result.difference.is_alike
    return "suspicious" if result.verdict is Suspicion.NONE and differs else result.verdict.value


def _answers(details: Sequence[Mapping[str, Any]]) -> Table | None:
    """What was found, a row each."""
    rows = [
        [item["operator"], Link(item["word"], f"#/finding/{item['id']}", item["word"]), item["controls"]]
        for item in details[:MOST_LISTED]
    ]
    return Table("What was found", ["operator", "verdict", "controls"], rows) if rows else None


def _excused(result: AuditResult) -> Iterator[Table]:
    excused = result.found.excused
    reasons = Counter(item.why for item in excused)
    rows = []
    for why in (reason for reason in Honest if reasons[reason]):
        named = dict.fromkeys(f"%{item.operator.node} {short(item.operator.op)}" for item in excused if item.why is why)
        rows.append([why.value, f"{reasons[why]:,}", joined(list(named))])
    if rows:
        yield Table("Values that rest, or flags, and are no gate", ["reason", "values", "for example"], rows)


def _difference_tables(found: Difference) -> Iterator[Table]:
    gone = [[operator_text(item), item.where, item.line] for item in found.only_there[:MOST_LISTED]]
    if gone:
        total = many(len(found.only_there), "operator")
        yield Table(f"Only in {found.original}: {total}", ["operator", "module", "source"], gone)
    weights = [[item.name or "computed", weight_text(item)] for item in found.weights[:MOST_LISTED]]
    if weights:
        yield Table(f"Other weights than in {found.original}: {len(found.weights):,}", ["weight", "how"], weights)


def _gate(result: AuditResult, gate: Gate) -> dict[str, Any]:
    facts = gate_facts(gate)
    remarks = {gate.operator.node: "the gate"}
    if gate.controls is not None:
        remarks[gate.controls.node] = "what it controls"
    evidence = dict(facts)
    return {
        "word": gate.verdict.value,
        "head": f"{gate.verdict.value}: {operator_text(gate.operator)}",
        "category": "gate",
        "kind": "",
        "known": "",
        "operator": operator_text(gate.operator),
        "controls": operator_text(gate.controls) if gate.controls is not None else "",
        "sentence": evidence.get("fires") or evidence["dominant"],
        "facts": [(label, [said]) for label, said in _joined(facts)],
        **_picture(result, gate.picture, gate.slice, [gate.operator.node], remarks),
    }


def _region(result: AuditResult, region: Region) -> dict[str, Any]:
    facts = region_facts(region)
    told = dict(facts)
    nodes = [item.node for item in region.operators]
    return {
        "word": ONLY_HERE,
        "head": f"{ONLY_HERE}: {region_head(region)}",
        "category": "region",
        "kind": "",
        "known": "",
        "operator": told.get("operators", ""),
        "controls": told.get("controls", ""),
        "sentence": f"{region_head(region)}, in the place {told['instead']}" if "instead" in told else (
            region_head(region)),
        "facts": [(label, [said]) for label, said in facts],
        **_picture(result, region.picture, nodes, region.gates, dict.fromkeys(region.gates, "the gate")),
    }  # fmt: skip


def _joined(facts: Sequence[tuple[str, str]]) -> Iterator[tuple[str, str]]:
    """Every line has a label; remarks have none on a console."""
    yield from ((label or "remark", said) for label, said in facts)


def _picture(
    result: AuditResult,
    picture: Sequence[Wired],
    branch: Sequence[int],
    culprits: Sequence[int],
    remarks: Mapping[int, str],
) -> dict[str, Any]:
    """The drawing of a slice, and the same as text; nothing where the document has none."""
    shown = [item for item in picture[:WHOLE] if item.operator.node >= 0]
    if not shown:
        return {}
    program = _program(result, shown)
    chosen = {item.operator.node for item in shown}
    svg = draw(program, chosen, culprits, remarks, branch, total=result.found.nodes)
    lines = [text_of(node, program) for node in program.nodes if node.id in chosen]
    return {"svg": svg, "slice": lines, "nodes": result.found.nodes}


def _program(result: AuditResult, picture: Sequence[Wired]) -> Program:
    """The part of the program that a picture shows; one node more stands for all that reads from it."""
    known = [number for item in picture for number in (item.operator.node, *item.reads)]
    ids = iter(range(max(known) + 1, max(known) + 2 + sum(len(w.inputs) + len(w.weights) for w in picture)))
    inputs = {name: Input(next(ids), name, _meta(result.inputs.get(name, "")) or _UNKNOWN)
              for name in dict.fromkeys(name for item in picture for name in item.inputs)}  # fmt: skip
    weights = {name: Constant(next(ids), name, _UNKNOWN, "")
               for name in dict.fromkeys(name for item in picture for name in item.weights)}  # fmt: skip
    nodes = [
        Node(
            item.operator.node,
            item.operator.op,
            (*(Ref(inputs[name].id) for name in item.inputs), *map(Ref, item.reads),
             *(Ref(weights[name].id) for name in item.weights)),
            {},
            _meta(item.operator.result),
            item.operator.where,
            item.operator.line,
        )
        for item in picture
    ]  # fmt: skip
    rest = Node(next(ids), "", tuple(Ref(item.operator.node) for item in picture if item.leads_on))
    return Program(result.model, tuple(inputs.values()), tuple(weights.values()), (*nodes, rest), ())


_UNKNOWN: Final = TensorMeta((), "", ())


def _meta(text: str) -> TensorMeta | None:
    """`float32[2, 3]` read back."""
    found = re.fullmatch(r"(\w+)\[((?:\d{1,12}(?:, )?)*)\]", text)
    if found is None or found[1] not in DTYPES:
        return None
    return TensorMeta(tuple(int(size) for size in found[2].split(", ") if size), found[1], ())

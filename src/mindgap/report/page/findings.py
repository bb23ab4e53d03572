"""The page of each finding: the sentence, the path of the error, the slice of the graph, the proof and the script."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec

from mindgap.campaign.ledger import read_program
from mindgap.campaign.reader import FOLDER, Campaign, explanations_of
from mindgap.errors import MindgapError
from mindgap.program.codec import decode
from mindgap.program.graph import Node, Program
from mindgap.reading.files import read_file, refusing
from mindgap.records.explanation import Explanation, TracedOperator
from mindgap.records.finding import Evidence, Finding
from mindgap.report.campaign import cause_of, operator_of, wrong
from mindgap.report.drawing import around, draw
from mindgap.report.explain import WORDS, explanation_facts, explanation_headline
from mindgap.report.listing import text_of
from mindgap.report.page.content import MOST_DETAILS
from mindgap.report.summary import multiple

MOST_STEPS: Final = 160
"""Operators along the data flow in a chart: those around the culprit, where a program has more."""
MOST_EVIDENCE: Final = 40
MOST_SCRIPT: Final = 24 << 10
"""Bytes of a script or an issue inside the page; a longer one stays in its folder."""
MOST_SLICE: Final = 14
"""Operators in the drawing."""
FEW_CULPRITS: Final = 12
"""So many fit the drawing with a neighbour. Where more are under suspicion they are counted, not drawn."""


def page_id(finding: Finding, number: int) -> str:
    """The name of a finding's page; before a run has ended there is no id."""
    return finding.id or f"new-{number + 1}"


def head_of(finding: Finding) -> str:
    """Who is wrong, at which operator; what is wrong where the operator is not known."""
    found = finding.explanation
    if found is not None and len(found.culprits) > FEW_CULPRITS:
        return f"{wrong(finding)}: {WORDS.get(finding.kind, finding.kind)} among {len(found.culprits):,} operators"
    named = finding.operator or (found.operator if found is not None else "")
    known, what = operator_of(finding), WORDS.get(finding.kind, finding.kind)
    return f"{wrong(finding)}: {named or (f'{what}, operator {known}' if known else f'{what} at {finding.stage}')}"


def story(finding: Finding) -> str:
    """A finding in one sentence."""
    if finding.category == "failure":
        return finding.witness.message or finding.message
    return finding.witness.sentence or cause_of(finding)


def details_of(data: sqlite3.Connection, directory: Path, campaign: Campaign) -> Iterator[dict[str, Any]]:
    """The pages of the first findings."""
    explained = explanations_of(data)
    for number, finding in enumerate(campaign.findings[:MOST_DETAILS]):
        shown = next((item for item in finding.evidence if (item.program, item.platform) in explained), finding.witness)
        program = _program(data, shown.program)
        culprits = _culprits(program, finding) if program is not None else []
        yield {
            "id": page_id(finding, number),
            "head": head_of(finding),
            "category": finding.category,
            "kind": finding.kind,
            "known": finding.known,
            "sentence": story(finding),
            "facts": _facts(finding, culprits, _changes(data, shown.program)),
            "evidence": [_evidence(item) for item in finding.evidence[:MOST_EVIDENCE]],
            "evidence_total": len(finding.evidence),
            **(_explained(finding.explanation) if finding.explanation is not None else {}),
            **(_graph(program, culprits, finding.explanation) if program is not None else {}),
            **_files(directory, finding),
        }


def _changes(data: sqlite3.Connection, program: int) -> list[str]:
    """What a variant changed in its model, step by step."""
    query = (
        "SELECT b.name, p.steps FROM programs p JOIN bases b ON b.id = p.base WHERE p.id = ? AND p.steps IS NOT NULL"
    )
    row = data.execute(query, (program,)).fetchone()
    with refusing("the steps of a program cannot be read", f"program {program}"):
        steps = msgspec.json.decode(row[1], type=list[str]) if row is not None else []
    return [f"{row[0]}: {steps[0]}", *steps[1:]] if steps else []


def _culprits(program: Program, finding: Finding) -> list[Node]:
    """The operators at fault in a program: those of the explanation, or the first that has the name of the finding."""
    blamed = finding.explanation.culprits if finding.explanation is not None else ()
    if len(blamed) > FEW_CULPRITS:
        return []
    nodes = {node.id: node for node in program.nodes}
    found = [nodes[number] for number in blamed if number in nodes]
    names = finding.operator.split(" + ") if finding.operator else []
    named = [node for node in program.nodes if node.op in names or node.op.rpartition(".")[0] in names]
    return found or named[:1]


def _facts(finding: Finding, culprits: Sequence[Node], changes: list[str]) -> list[tuple[str, list[str]]]:
    facts = [
        ("platforms", [", ".join(finding.platforms)]),
        ("outcome" if finding.category == "failure" else "what differs", [finding.kind]),
        ("error / rounding", [multiple(finding.error_over_bound)] if finding.error_over_bound else []),
        ("stage", [finding.stage] if finding.category == "failure" else []),
        ("message", [finding.message] if finding.message and finding.message != story(finding) else []),
        ("derived by", changes),
        ("signature", [finding.signature]),
    ]
    modules = [f"{node.op} in {node.where}" for node in culprits[:3] if node.where]
    lines = dict.fromkeys(node.line for node in culprits[:3] if node.line)
    told = explanation_facts(finding.explanation) if finding.explanation is not None else [("source", list(lines))]
    facts[4:4] = [*told, ("module", modules)]
    return [(label, said) for label, said in facts if said]


def _evidence(item: Evidence) -> list[Any]:
    kind = "fragment" if item.is_fragment else "variant"
    return [item.program, item.name, kind, item.nodes, item.platform, item.error_over_bound, item.sentence]


def _explained(found: Explanation) -> dict[str, Any]:
    cause, layer = found.cause, found.layer
    return {
        "headline": explanation_headline(found),
        "platform": found.platform,
        "elements": [
            [item.place, item.candidate, item.eager, item.float64, item.error_over_bound]
            for item in found.verdict.elements or found.proof.verdict.elements
        ],
        "elements_of": "the whole program" if found.verdict.elements else "the smallest program that shows it",
        "trace": [_step(step) for step in _window(found)],
        "trace_total": len(found.trace),
        "experiments": list(cause.evidence),
        "vanishes": [*cause.vanishes, *(layer.restoring if layer else ())],
        "rungs": [list(rung) for rung in layer.rungs] if layer else [],
        "said": found.script.said,
        "reproduces": found.script.reproduces,
        "versions": dict(found.versions),
    }


def _window(found: Explanation) -> tuple[TracedOperator, ...]:
    """The steps around the first culprit; all where they are few."""
    if len(found.trace) <= MOST_STEPS:
        return found.trace
    first = next((n for n, step in enumerate(found.trace) if step.node in found.culprits), 0)
    start = min(max(0, first - MOST_STEPS // 4), len(found.trace) - MOST_STEPS)
    return found.trace[start : start + MOST_STEPS]


def _step(step: TracedOperator) -> list[Any]:
    return [step.index, step.op, step.where, step.dtype, step.own, step.total, int(step.at_fault), int(step.inherits),
            step.line]  # fmt: skip


def _graph(program: Program, culprits: Sequence[Node], found: Explanation | None) -> dict[str, Any]:
    """The drawing of the culprits with their neighbours, and the same as text."""
    if not culprits and len(program.nodes) > MOST_SLICE:
        return {}
    remarks = {step.node: _remark(step) for step in found.trace} if found is not None else {}
    blamed = [node.id for node in culprits]
    near = around(program, blamed[:1], MOST_SLICE)
    chosen = near if set(blamed) <= near else around(program, blamed, MOST_SLICE)
    lines = [text_of(node, program) for node in program.nodes if node.id in chosen]
    return {"svg": draw(program, chosen, blamed, remarks), "slice": lines, "nodes": len(program.nodes)}


def _remark(step: TracedOperator) -> str:
    if step.at_fault:
        return f"own error {multiple(step.own)}" if step.own else "wrong alone"
    return f"inherits {multiple(step.total)}" if step.inherits and step.total else ""


def _program(data: sqlite3.Connection, number: int) -> Program | None:
    content = read_program(data, number)
    return decode(content, where=f"program {number}") if content is not None else None


def _files(directory: Path, finding: Finding) -> Mapping[str, Any]:
    """The script and the issue text, from the folder of the finding itself or of its explanation."""
    folders = [name for name in (finding.id, finding.folder) if name and re.fullmatch(FOLDER, name)]
    found: dict[str, Any] = {}
    for key, name in (("script", "repro.py"), ("issue", "issue.md")):
        for folder in folders:
            path = directory / folder / name
            if key not in found and path.is_file() and path.resolve().is_relative_to(directory.resolve()):
                try:
                    found[key] = read_file(path, MOST_SCRIPT).decode("utf-8", "replace")
                except MindgapError:
                    found[f"{key}_at"] = f"{folder}/{name}"
                found["folder"] = folder
    return found

"""The page of an audit: every gate with its evidence and its picture, and nothing of a model as markup."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from mindgap.errors import CorruptFile
from mindgap.records.audit import (
    AuditResult,
    Difference,
    Excused,
    Found,
    Gate,
    Honest,
    Likeness,
    Operator,
    OtherWeight,
    Region,
    Shift,
    Suspicion,
    Wired,
    Witness,
)
from mindgap.report.audit import audit_document, audit_lines
from mindgap.report.documents import AuditDocument, read_document
from mindgap.report.page.of_results import content_of
from mindgap.report.page.render import overview, page
from tests.report.page.conftest import HOSTILE

SCORE = Operator(4, "aten.amax.default", HOSTILE, f"{HOSTILE}.py:3", "float32[2, 4]")
FIRED = Operator(5, "aten.gt.Scalar", HOSTILE, "net.py:4", "bool[2]")
CHOSEN = Operator(6, "aten.where.self", "", "net.py:5", "float32[2, 10]")
PICTURE = (Wired(SCORE, (3,), ("x",), ("w<b>",)), Wired(FIRED, (4,)), Wired(CHOSEN, (5, 2), leads_on=True))
SHIFT = Shift("output", (0.5, 1.0), (7.0, 7.0), 3.0, float("inf"))


def audited() -> AuditResult:
    witness = Witness("gradient ascent through the detector", (1.0,), SHIFT, "out/witness-5.safetensors", True)
    gate = Gate(Suspicion.HIDDEN, FIRED, (0.0,), (1.0,), SHIFT, True, 0, (SCORE,), ("x",), CHOSEN, (4, 5, 6), PICTURE,
                witness, remarks=("the same branch rests at %7",))  # fmt: skip
    other = replace(gate, verdict=Suspicion.SUSPICIOUS, witness=None, picture=())
    excused = Excused(CHOSEN, Honest.WEAK)
    return AuditResult(
        HOSTILE,
        3,
        Found((gate, other), (excused,), 40, 9, {"example": 1}, 0, ("2 of 9 resting values were not forced",)),
        1234,
        {"x": "float32[2, 3, 16, 16]"},
        versions={"torch": "2"},
        seconds=1.5,
    )


def difference() -> Difference:
    region = Region((SCORE, FIRED, CHOSEN), ("x",), (SCORE,), (), ("output",), (CHOSEN,), (5,), PICTURE)
    weight = OtherWeight("w<b>", "w<b>", "float32[3]", float("inf"))
    return Difference("honest.pt2", Likeness.WRITTEN, 40, 37, (region,), (SCORE,), (weight,), ("something",))


def written(path: Path, result: AuditResult) -> Path:
    path.write_text(json.dumps(audit_document(result)))
    return path


def test_an_audit_is_read_back_as_it_was(tmp_path: Path) -> None:
    result = replace(audited(), difference=difference())
    found = read_document(written(tmp_path / "audit.json", result))
    assert isinstance(found, AuditDocument) and found.result == result


def test_every_gate_has_a_page_with_its_evidence_and_its_picture(tmp_path: Path) -> None:
    content = content_of(written(tmp_path / "audit.json", audited()))
    assert content.subject == "audit" and content.mood == "hidden branch"
    assert content.conclusion.startswith("1 hidden branch and 1 suspicious gate: ")
    assert content.not_decided == ["2 of 9 resting values were not forced"]
    assert content.answers is not None and [row[1].to for row in content.answers.rows] == ["#/finding/1", "#/finding/2"]
    assert [row[:3] for row in content.sections["gates"]["rows"]] == [
        ["1", "hidden branch", "%5 gt bool[2]"], ["2", "suspicious", "%5 gt bool[2]"],
    ]  # fmt: skip
    first, second = content.details
    facts = dict(first["facts"])
    assert {"reads", "controls", "dormant", "dominant", "before", "forced", "fires", "witness", "remark"} <= set(facts)
    assert facts["witness"] == ["out/witness-5.safetensors  (seen again in a fresh process)"]
    assert "svg" not in second, "a document without a picture still makes a page"
    assert first["svg"].count("<g class=") == 4 and 'class="g-culprit"' in first["svg"] and "what it" in first["svg"]
    assert "3 of 40 operators" in first["svg"] and first["nodes"] == 40 and len(first["slice"]) == 3
    assert first["svg"].count("g-more") == 3, "dashed ends lead to the rest"
    (table,) = content.tables
    assert table.rows == [[Honest.WEAK.value, "1", "%6 where"]]


def test_what_only_a_copy_has_is_a_page_too(tmp_path: Path) -> None:
    honest = replace(audited(), found=replace(audited().found, gates=()), difference=difference())
    content = content_of(written(tmp_path / "audit.json", honest))
    assert content.mood == "suspicious" and "92.5% of 40 operators are in honest.pt2 as well" in content.conclusion
    (region,) = content.details
    assert region["word"] == "only in the copy" and "with the gate %5 in it" in region["head"] and region["svg"]
    assert [table.caption for table in content.tables[1:]] == [
        "Only in honest.pt2: 1 operator", "Other weights than in honest.pt2: 1",
    ]  # fmt: skip
    lines = audit_lines(honest)
    assert "  only in the copy, 1: 3 operators that hang together, with the gate %5 in it" in lines
    assert any(line.startswith("    instead   of %6 where") for line in lines)


def test_a_model_that_is_honest_has_a_page_without_gates(tmp_path: Path) -> None:
    same = Difference("original", Likeness.FOLDED, 40, 40)
    result = replace(audited(), found=replace(audited().found, gates=()), difference=same)
    content = content_of(written(tmp_path / "audit.json", result))
    assert content.mood == "none found" and not content.details and not content.sections and content.answers is None
    assert "the same as original: all 40 operators and their weights" in content.conclusion


def test_nothing_from_a_model_becomes_markup(tmp_path: Path) -> None:
    content = content_of(written(tmp_path / "audit.json", replace(audited(), difference=difference())))
    whole = page(content)
    for text in (overview(content), *(item.get("svg", "") for item in content.details)):
        assert "<script>document" not in text and "onclick=x>" not in text and "\u202e" not in text
    assert "<script>document" not in whole and whole.count("<script") == whole.count("</script>")


@pytest.mark.parametrize(
    ("field", "value"),
    [("gates", [{"verdict": "innocent"}]), ("gates", 3), ("nodes", "many"), ("difference", {"nodes": 1})],
)
def test_a_damaged_audit_is_refused(tmp_path: Path, field: str, value: Any) -> None:
    path = tmp_path / "audit.json"
    path.write_text(json.dumps({**audit_document(audited()), field: value}))
    with pytest.raises(CorruptFile):
        read_document(path)

"""What pages say in words: campaigns, checks, operator sweeps and comparisons."""

from __future__ import annotations

import json
import math
import sqlite3
from dataclasses import replace
from pathlib import Path

import pytest

from mindgap.bench.made_campaign import write_campaign
from mindgap.campaign.matrix import Cell
from mindgap.campaign.reader import PlatformCounts
from mindgap.errors import CorruptFile
from mindgap.records.verdict import Conclusion, WrongElement
from mindgap.report.comparison import compare
from mindgap.report.page.content import Link, plain
from mindgap.report.page.matrix import consistency
from mindgap.report.page.of_campaign import answers_of, conclusion_of, mood_of
from mindgap.report.page.of_results import comparison_content, content_of
from mindgap.report.page.render import overview, page
from mindgap.report.results import results_of
from mindgap.report.summary import check_document
from tests.report.test_campaign import campaign
from tests.report.test_comparison import check


def test_a_campaign_is_concluded_in_one_sentence() -> None:
    said = conclusion_of(campaign())
    assert said == (
        "inductor (2 of 90 variants) differs by more than rounding; inductor (10 of 100) and openvino (1 of 45) do not "
        "run everything. 2 outputs could not be judged."
    )
    small = (PlatformCounts("openvino", "1", "cpu", 9, {"ok": 9}, {"diverges": 1, "agrees": 8}, 1.0),)
    both = replace(campaign(), fragments=9, fragment_platforms=small)
    assert conclusion_of(both).startswith("inductor (2 of 90 programs) and openvino (1 of 53 programs) differ by more")
    fine = [
        PlatformCounts(f"p{n}", "1", "cpu", 9, {"ok": 9, "rejected": 1}, {"rounding": 9, "agrees": 1}, 1.0)
        for n in range(7)
    ]
    quiet = replace(campaign(), platforms=tuple(fine), unjudged={})
    assert conclusion_of(quiet) == "p0, p1, p2, p3 and 3 more agree within rounding."
    assert conclusion_of(replace(quiet, platforms=())) == "Only eager ran: there is nothing to compare with."
    assert mood_of(campaign()) == "diverges" and mood_of(replace(campaign(), findings=())) == "unjudged"


def test_every_platform_is_answered_in_a_row_that_leads_to_what_it_counts() -> None:
    one = PlatformCounts("tvm", "1", "cpu", 1, {"ok": 1}, {"agrees": 1}, 1.0)
    table = answers_of(replace(campaign(), platforms=(*campaign().platforms, one)))
    assert table is not None
    shown = [[cell.text if isinstance(cell, Link) else cell for cell in row] for row in table.rows]
    assert shown == [
        ["inductor", "10 of 100 do not run", "2 of 90 differ by more than rounding", "8 hazard"],
        ["openvino", "1 of 45 does not run", "all 44 agree within rounding", ""],
        ["tvm", "the only one runs", "the only one agrees within rounding", ""],
    ]
    assert [(cell.word, cell.to) for cell in table.rows[0][1:]] == [
        ("failed", "#/runs?q=p%3Ainductor%20v%3Afailed"), ("diverges", "#/runs?q=p%3Ainductor%20v%3Adiverges"),
        ("hazard", "#/runs?q=p%3Ainductor%20v%3Ahazard"),
    ]  # fmt: skip
    assert answers_of(replace(campaign(), platforms=())) is None
    wider = replace(campaign().plan, platforms=(*campaign().plan.platforms, "tvm"))
    idle = answers_of(replace(campaign(), plan=wider))
    assert idle is not None and idle.rows[-1] == ["tvm", "· nothing ran", "", ""], "nobody is left out"


def test_a_column_that_is_missing_or_partial_says_so() -> None:
    cells = [Cell("bert", "00", "variant", "openvino", {"agrees": 2}, None)]
    found = consistency(cells, [], (), {"variant": {"openvino": (2, 9), "tvm": (0, 9)}})
    assert found["platforms"] == ["openvino", "tvm"] and found["views"]["variant"]["rows"][0][1][1] is None
    assert found["ran"] == {"variant": {"openvino": [2, 9], "tvm": [0, 9]}}


def test_what_is_known_is_marked_in_its_cell() -> None:
    cells = [Cell("bert", "00", "variant", name, {"diverges": 1}, math.inf) for name in ("openvino", "tvm")]
    (row,) = consistency(cells, [], {("00", "openvino")})["views"]["variant"]["rows"]
    assert [cell[3] for cell in row[1]] == [1, 0]


def write(path: Path, document: object) -> Path:
    path.write_text(json.dumps(document))
    return path


def test_a_check_is_a_page_with_a_row_per_platform(tmp_path: Path) -> None:
    one = write(tmp_path / "a.json", check_document([check(openvino=Conclusion.DIVERGES, inductor=Conclusion.AGREES)]))
    content = content_of(one)
    assert content.subject == "check" and content.mood == "diverges" and not content.figures
    assert content.conclusion == "openvino diverges; inductor agrees within rounding." and content.answers is not None
    assert [row[3].word for row in content.answers.rows] == ["diverges", "agrees"]
    assert [row[3].to for row in content.answers.rows] == ["#/finding/1", "#/runs?q=p%3Ainductor"]
    assert (
        [row[2] for row in content.sections["findings"]["rows"]]
        == ["openvino"]
        == [d["head"][:8] for d in content.details]
    )
    write(tmp_path / "b.json", check_document([replace(check(openvino=Conclusion.FAILED), model="b")]))
    (tmp_path / "other.json").write_text("{}")
    several = content_of(tmp_path)
    assert (
        several.title.startswith("2 models on openvino") and "openvino: 1 wrong, 1 not run of 2" in several.conclusion
    )


OPERATORS = {
    "schema": "mindgap.ops/1", "made": "2026-11-17T12:00:00Z", "versions": {"torch": "2"},
    "declared": [{"platform": "x<y", "operators": {"aten.amax.default": "kernel", "aten.never.default": "missing"}}],
    "observed": {"cells": [
        {"operator": "aten.amax.default", "dtype": "float16", "platform": "eager", "grade": "agrees bitwise"},
        {"operator": "aten.sort.default", "dtype": "int8", "platform": "x<y", "grade": "wrong", "message": "<b>",
         "invocations": {"wrong": 1, "rounding": 3}},
    ]},
}  # fmt: skip


def test_what_was_not_exercised_does_not_look_like_what_works(tmp_path: Path) -> None:
    content = content_of(write(tmp_path / "ops.json", OPERATORS))
    assert content.sections["operators"]["rows"] == [
        ["aten.amax.default", "float16", [None, "agrees bitwise", "", ""], ["kernel", None, "", ""]],
        ["aten.sort.default", "int8", [None, None, "", ""], [None, "wrong", "<b>", "1 wrong, 3 rounding"]],
    ]
    assert content.not_decided == [
        f"{name}: 1 of 2 not exercised; that says nothing about them" for name in ("eager", "x<y")
    ]
    assert content.conclusion == "eager: all 1 work; x<y: 1 of 1 fail or are wrong."
    assert content.mood == "diverges" and "x&lt;y" in overview(content) and "x<y" not in overview(content)
    assert content.first[0].to == "#/operators?q=p%3Ax%3Cy%20op%3Aaten.sort.default"


def test_what_is_only_declared_is_no_result(tmp_path: Path) -> None:
    content = content_of(write(tmp_path / "ops.json", {**OPERATORS, "observed": None}))
    assert content.mood == "unjudged" and content.conclusion.startswith("Nothing ran") and not content.figures
    assert [row[:2] for row in content.sections["operators"]["rows"]] == [
        ["aten.amax.default", "any"], ["aten.never.default", "any"],
    ]  # fmt: skip


def test_a_grade_that_nobody_gives_is_refused(tmp_path: Path) -> None:
    cell = {"operator": "o", "dtype": "d", "platform": "p", "grade": "splendid"}
    with pytest.raises(CorruptFile):
        content_of(write(tmp_path / "ops.json", {**OPERATORS, "observed": {"cells": [cell]}}))


def test_the_worst_elements_of_a_check_are_on_its_page(tmp_path: Path) -> None:
    wrong = WrongElement("y[3]", "-3", "-4", "-4", math.inf)
    result = check(openvino=Conclusion.DIVERGES)
    item = result.platforms["openvino"]
    verdict = replace(item.verdict, elements=(wrong,))
    result = replace(result, platforms={"openvino": replace(item, verdict=verdict)})
    content = content_of(write(tmp_path / "check.json", check_document([result])))
    assert content.details[0]["elements"] == [["y[3]", "-3", "-4", "-4", math.inf]]


def test_numbers_that_json_does_not_have_are_read_and_shown(tmp_path: Path) -> None:
    document = check_document([check(openvino=Conclusion.DIVERGES, tvm=Conclusion.DIVERGES)])
    for name, value in (("openvino", math.nan), ("tvm", math.inf)):
        document["platforms"][name]["error_over_bound"] = value
    content = content_of(write(tmp_path / "check.json", document))
    errors = [row[6] for row in content.sections["findings"]["rows"]]
    assert math.isnan(errors[0]) and errors[1] == math.inf
    json.dumps(plain(content.sections), allow_nan=False)


def test_a_campaign_without_a_program_is_a_page_that_says_so(tmp_path: Path) -> None:
    pytest.importorskip("altair")
    write_campaign(tmp_path / "made", 20, 0, explained=0)
    with sqlite3.connect(tmp_path / "made" / "ledger.sqlite") as data:
        for table in ("verdicts", "outcomes", "programs"):
            data.execute(f"DELETE FROM {table}")
    content = content_of(tmp_path / "made")
    assert content.conclusion == "Only eager ran: there is nothing to compare with." and content.answers is None
    assert ("run", "0 of 0 program runs, 0 of 20 programs so far") in content.strip
    assert "nothing to compare with" in page(content)


def test_a_comparison_is_a_page(tmp_path: Path) -> None:
    pytest.importorskip("altair")
    cells = [dict(cell) for cell in OPERATORS["observed"]["cells"]]  # type: ignore[index,call-overload]
    cells[0]["grade"] = "unsupported"
    new = write(tmp_path / "new.json", {**OPERATORS, "observed": {"cells": cells}, "versions": {"torch": "3"}})
    content = comparison_content(compare(results_of(write(tmp_path / "old.json", OPERATORS)), results_of(new)))
    assert content.mood == "diverges" and content.sections["changes"]["rows"][0][:3] == [
        "appeared", "aten.amax.default float16", "eager",
    ]  # fmt: skip
    text = page(content)
    assert "1 new problem" in text and "Versions that changed" in text and 'data-section="changes"' in text

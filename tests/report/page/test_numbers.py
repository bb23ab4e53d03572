"""The numbers of a page are those of the ledger, computed here in SQL alone; and the page stays small."""

from __future__ import annotations

import base64
import json
import re
import sqlite3
import zlib
from pathlib import Path
from typing import Any

import pytest

from mindgap.report.page.content import Content, plain
from mindgap.report.page.of_campaign import campaign_content
from tests.report.page.conftest import HOSTILE


@pytest.fixture(scope="module")
def content(campaign: Path) -> Content:
    return campaign_content(campaign)


def rows(campaign: Path, query: str, *given: Any) -> list[Any]:
    return sqlite3.connect(campaign / "ledger.sqlite").execute(query, given).fetchall()


def shown(content: Content, figure: str) -> dict[tuple[str, str], int]:
    (found,) = [item for item in content.figures if item.id == figure]
    return {(bar.row, bar.word): bar.count for bar in found.bars}


def test_execution_is_what_the_outcomes_say(campaign: Path, content: Content) -> None:
    query = (
        "SELECT f.name, o.status, COUNT(*) FROM outcomes o JOIN platforms f ON f.id = o.platform "
        "JOIN programs p ON p.id = o.program WHERE p.kind = 'variant' GROUP BY 1, 2"
    )
    assert shown(content, "execution") == {(name, status): n for name, status, n in rows(campaign, query)}


@pytest.mark.parametrize("figure, kind", [("consistency", "variant"), ("fragments", "fragment")])
def test_consistency_is_what_the_verdicts_say(campaign: Path, content: Content, figure: str, kind: str) -> None:
    query = (
        "SELECT f.name, v.conclusion, COUNT(*) FROM verdicts v JOIN platforms f ON f.id = v.platform "
        "JOIN programs p ON p.id = v.program WHERE p.kind = ? GROUP BY 1, 2"
    )
    found = {(name, word): n for name, word, n in rows(campaign, query, kind)}
    if figure == "consistency":
        found = {key: n for key, n in found.items() if key[1] != "failed"}
    assert shown(content, figure) == found


def test_compiled_against_eager_is_what_the_verdicts_of_inductor_say(campaign: Path, content: Content) -> None:
    query = (
        "SELECT v.conclusion, COUNT(*) FROM verdicts v JOIN platforms f ON f.id = v.platform "
        "JOIN programs p ON p.id = v.program WHERE p.kind = 'variant' AND f.name = 'inductor' GROUP BY 1"
    )
    assert {word: n for (_, word), n in shown(content, "compiled").items()} == dict(rows(campaign, query))


def test_pairs_with_the_same_bits_are_those_with_the_same_digest(campaign: Path, content: Content) -> None:
    query = (
        "SELECT COUNT(*) FROM outcomes a JOIN outcomes b ON b.program = a.program "
        "JOIN platforms x ON x.id = a.platform JOIN platforms y ON y.id = b.platform "
        "JOIN programs p ON p.id = a.program WHERE p.kind = 'variant' AND a.status = 'ok' AND b.status = 'ok' "
        "AND x.name = 'onnxruntime' AND y.name = 'openvino'"
    )
    found = {word: n for (row, word), n in shown(content, "pairs").items() if row == "onnxruntime and openvino"}
    assert sum(found.values()) == rows(campaign, query)[0][0]
    assert found["same bits"] == rows(campaign, query + " AND a.digest = b.digest")[0][0]


def test_a_cell_of_the_heat_map_is_the_worst_of_its_model(campaign: Path, content: Content) -> None:
    data = content.sections["consistency"]
    query = (
        "SELECT MAX(v.error_over_bound), COUNT(*) FROM verdicts v JOIN programs p ON p.id = v.program JOIN bases b ON "
        "b.id = p.base JOIN platforms f ON f.id = v.platform WHERE b.name = ? AND p.kind = ? AND f.name = ?"
    )
    for kind in ("variant", "fragment"):
        for model, cells in data["views"][kind]["rows"]:
            for platform, cell in zip(data["platforms"], cells):
                worst, count = rows(campaign, query, model, kind, platform)[0]
                assert (cell is None) == (count == 0)
                if cell is not None:
                    assert (cell[1], sum(cell[2].values())) == (worst, count)


def test_the_table_of_issues_counts_every_finding(content: Content) -> None:
    (table,) = content.tables
    counted = sum(int(cell.text) for row in table.rows for cell in row[1:] if cell)
    listed = content.sections["findings"]
    at = listed["titles"].index("platform")
    assert counted == sum(len(row[at].split()) for row in listed["rows"]) and counted > 0


def test_the_raw_table_has_every_row_that_somebody_should_look_at(campaign: Path, content: Content) -> None:
    runs = content.sections["runs"]
    assert runs["total"] == rows(campaign, "SELECT COUNT(*) FROM outcomes")[0][0] == len(runs["rows"])
    at = runs["titles"].index("verdict")
    loud = rows(campaign, "SELECT COUNT(*) FROM verdicts WHERE conclusion = 'diverges'")[0][0]
    assert sum(row[at] == "diverges" for row in runs["rows"]) == loud


def test_numbers_that_json_cannot_hold_survive() -> None:
    assert plain({"a": [float("inf"), float("-inf"), float("nan"), 1.23456789]}) == {"a": ["inf", "-inf", "nan", 1.235]}
    json.dumps(plain(float("nan")), allow_nan=False)


def test_the_page_is_small_and_holds_nothing_of_a_model_as_markup(page_file: Path) -> None:
    text = page_file.read_text(encoding="utf-8")
    assert len(text.encode()) < 2_000_000
    assert HOSTILE not in text and "<img" not in text
    assert (
        text.count("<script") == text.count("</script>") == len(re.findall(r'<script type="text/x-mindgap"', text)) + 1
    )
    policy = re.search(r'Content-Security-Policy" content="([^"]+)"', text)
    assert policy is not None and "unsafe" not in policy[1] and "default-src &#x27;none&#x27;" in policy[1]


def test_what_is_compressed_in_the_page_is_json(page_file: Path) -> None:
    blobs = dict(re.findall(r'id="data-([\w-]+)">([^<]*)<', page_file.read_text(encoding="utf-8")))
    assert {"about", "specs", "charts", "section-findings", "section-runs", "section-consistency", "details-0"} <= set(
        blobs
    )
    for name, blob in blobs.items():
        content = zlib.decompress(base64.b64decode(blob)).decode()
        if name != "charts":
            json.loads(content)

"""JUnit and Markdown that no message can break."""

from __future__ import annotations

from xml.etree import ElementTree

from mindgap.report.ci import (
    campaign_summary,
    campaign_tests,
    comparison_markdown,
    comparison_tests,
    junit,
    operator_tests,
    result_tests,
    results_markdown,
)
from mindgap.report.comparison import compare
from mindgap.report.documents import OperatorCell, OperatorsDocument
from mindgap.report.results import Result, Results
from tests.report.test_campaign import campaign

BAD = Result('<m> & "n"', "p", "diverges", "value", float("inf"), "a | <b>\x00\x1b[31m ]]>", seconds=1.5)
LINES = [
    BAD,
    Result("m", "known", "failed", "crash", None, "segfault", known="issue-1"),
    Result("m", "hazard", "hazard"),
    Result("m", "fine", "rounding", "value", 0.5),
]


def states(text: str) -> dict[str, str]:
    found = {}
    for case in ElementTree.fromstring(text).iter("testcase"):
        inner = [child.tag for child in case]
        found[str(case.get("name"))] = inner[0] if inner else "passed"
    return found


def test_a_build_server_sees_failures_skips_and_passes() -> None:
    text = junit(list(result_tests(LINES, {"diverges", "failed"})), "mindgap check")
    assert states(text) == {"p": "failure", "known": "skipped", "hazard": "skipped", "fine": "passed"}
    root = ElementTree.fromstring(text)
    assert (root.get("tests"), root.get("failures"), root.get("skipped")) == ("4", "1", "2")
    assert root[0].get("name") == '<m> & "n"' and "a | <b>" in (root[0][0][0].text or "")


def test_what_fails_is_what_the_command_fails_on() -> None:
    assert states(junit(list(result_tests(LINES, {"hazard"})), "x")) == {
        "p": "skipped", "known": "skipped", "hazard": "failure", "fine": "passed",
    }  # fmt: skip


def test_operators_are_tests_and_next_to_a_baseline_only_what_became_worse_fails() -> None:
    cells = [
        OperatorCell("amax", "float32", "x", observed="wrong"), OperatorCell("sort", "int8", "x", observed="crash"),
        OperatorCell("add", "int8", "x", observed="agrees bitwise"), OperatorCell("mul", "int8", "x", "kernel"),
        OperatorCell("sub", "int8", "x", observed="not judged"),
    ]  # fmt: skip
    document = OperatorsDocument("", {}, ("x",), tuple(cells))

    def found(worse: set[tuple[str, str]] | None) -> list[str]:
        return [test.state for test in operator_tests(document, worse)]

    assert found(None) == ["failed", "failed", "passed", "skipped", "skipped"]
    assert found({("x", "sort int8")}) == ["skipped", "failed", "passed", "skipped", "skipped"]


def test_findings_are_tests_and_known_ones_are_skipped() -> None:
    found = states(junit(list(campaign_tests(campaign(), {"diverges", "failed"})), "mindgap hunt"))
    assert sum(state == "failure" for state in found.values()) == 2
    assert sum(state == "skipped" for state in found.values()) == 1
    assert "eager: 100 programs ran" in found


def test_a_comment_on_a_pull_request_cannot_be_broken() -> None:
    text = results_markdown("mindgap check m", "1 platform diverges.", LINES)
    assert "\\<b\\>" in text and "\x00" not in text and "1 other result within rounding" in text
    rows = [row for row in text.splitlines() if row.startswith("|")]
    assert len(rows) == 5 and all(row.replace("\\|", "").count("|") == 6 for row in rows)
    assert "inductor" in campaign_summary(campaign(), "openvino: 1 of 50 do not run.")


def test_a_comparison_fails_on_what_appeared() -> None:
    old = Results("check", "old", (("torch", "1"),), (Result("a", "p", "agrees"), Result("b", "p", "diverges")))
    new = Results(
        "check", "new", (("torch", "2"),), (Result("a", "p", "diverges", said="x"), Result("b", "p", "agrees"))
    )
    found = compare(old, new)
    assert states(junit(list(comparison_tests(found, {"appeared"})), "x")) == {"p": "passed"}  # b, the later of two
    assert ElementTree.fromstring(junit(list(comparison_tests(found, {"appeared"})), "x")).get("failures") == "1"
    text = comparison_markdown(found)
    assert "torch 1 to 2" in text and "| appeared | a | p | agrees | diverges | x |" in text

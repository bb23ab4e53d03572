"""Documents and sentences are pure functions of results."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mindgap.records.check import CheckResult, PlatformResult
from mindgap.records.outcome import Outcome, Stage, Status
from mindgap.records.platform import Probe
from mindgap.records.verdict import Blame, Conclusion, Kind, Verdict
from mindgap.report.summary import (
    CHECK_TITLES,
    check_document,
    check_row,
    closing_line,
    count,
    export_line,
    left_out_lines,
    multiple,
    remarks,
)
from mindgap.report.terminal import plain_text

EAGER = Outcome("eager", Status.OK, Stage.RUN)


def result(**conclusions: Conclusion) -> CheckResult:
    platforms = {
        name: PlatformResult(
            Outcome(name, Status.OK, Stage.RUN, seconds={"run": 0.5}),
            Verdict(name, conclusion, "because", Kind.VALUE, Blame.CANDIDATE, float("inf")),
            Probe(True),
        )
        for name, conclusion in conclusions.items()
    }
    return CheckResult("m", "float32", 0, 3, 10, {"x": "float32[1]"}, EAGER, platforms, versions={})


def test_the_document_has_the_promised_fields() -> None:
    document = json.loads(json.dumps(check_document([result(a=Conclusion.DIVERGES)]), allow_nan=False))
    assert document["schema"] == "mindgap.check/1"
    promised = {"outcome", "stage", "message", "verdict", "kind", "error_over_bound", "blame", "seconds"}
    assert promised <= set(document["platforms"]["a"])
    assert document["platforms"]["a"]["error_over_bound"] == "inf"
    assert document["differs"] is True


@pytest.mark.parametrize(
    ("conclusions", "line"),
    [
        ({"a": Conclusion.AGREES}, "Nothing diverges."),
        ({"a": Conclusion.FAILED, "b": Conclusion.ROUNDING}, "1 platform could not run it. Nothing diverges."),
        ({"a": Conclusion.DIVERGES, "b": Conclusion.DIVERGES}, "2 platforms diverge."),
        ({"a": Conclusion.DIVERGES}, "1 platform diverges."),
        ({"a": Conclusion.HAZARD}, "Nothing diverges. 1 platform differs only where the behaviour is unspecified."),
        ({"a": Conclusion.UNJUDGED}, "Nothing diverges. 1 platform could not be judged."),
    ],
)
def test_the_closing_line(conclusions: dict[str, Conclusion], line: str) -> None:
    assert closing_line(result(**conclusions)) == line


def failed(name: str, message: str) -> PlatformResult:
    verdict = Verdict(name, Conclusion.FAILED, f"did not run: unsupported at export: {message}")
    return PlatformResult(Outcome(name, Status.UNSUPPORTED, Stage.EXPORT, message), verdict, Probe(True))


def test_why_a_model_cannot_be_exported_is_said_once() -> None:
    why = "the code branches on the value of a tensor (m.py:4 in forward)"
    platforms = {name: failed(name, why) for name in ("onnxruntime", "openvino")}
    found = replace(result(a=Conclusion.AGREES), export_failure=why)
    found = replace(found, platforms={**found.platforms, **platforms})
    assert remarks(found) == [
        ("onnxruntime, openvino", "did not run: unsupported at export: the model cannot be exported", Conclusion.FAILED)
    ]
    assert why in export_line(found)
    assert export_line(replace(found, eager=platforms["openvino"].outcome)) == "", "eager's own failure is said instead"
    apart = replace(found, platforms={"openvino": failed("openvino", "no rule for aten.foo")})
    assert "no rule for aten.foo" in remarks(apart)[0][1]


def test_the_verdict_is_a_verdict_and_the_outcome_has_the_stage() -> None:
    row = dict(zip(CHECK_TITLES, check_row("openvino", failed("openvino", "why"))))
    assert (row["outcome"], row["verdict"]) == ("unsupported at export", "failed")


@pytest.mark.parametrize(("blame", "shown"), [(Blame.EAGER, "exact"), (Blame.UNCLEAR, ""), (None, "")])
def test_no_error_at_all_is_not_shown_as_a_number(blame: Blame | None, shown: str) -> None:
    verdict = Verdict("a", Conclusion.DIVERGES, "40 of 40 elements differ", Kind.INTEGER, blame, 0.0)
    item = PlatformResult(EAGER, verdict, Probe(True))
    assert dict(zip(CHECK_TITLES, check_row("a", item)))["error / rounding"] == shown


def test_platforms_that_were_left_out_are_named() -> None:
    found = replace(result(a=Conclusion.AGREES), left_out={"openvino": "not installed; get it with: pip install it"})
    assert left_out_lines(found) == ["left out: openvino (not installed; get it with: pip install it)"]
    assert check_document([found])["left_out"] == found.left_out


@given(st.text())
def test_no_control_character_reaches_a_terminal(text: str) -> None:
    shown = plain_text(text)
    assert len(shown) == len(text)
    assert all(c == "\n" or c.isprintable() or c.isspace() for c in shown)
    assert not {"\u202e", "\u2066"} & set(plain_text(text + "\u202e\u2066")), "nothing turns text around"
    assert "\x1b" not in shown and "\x07" not in shown


def test_numbers_people_read() -> None:
    assert [multiple(v) for v in (None, 0.61, 37.0, 4e7, float("inf"))] == [
        "",
        "0.61x",
        "37x",
        "4.0e+07x",
        "not rounding",
    ]
    assert [count(v) for v in (7, 1500, 11_689_512, 2_000_000_000)] == ["7", "1.5 k", "11.7 M", "2.0 G"]

"""Results in a notebook: short as text, a small table as HTML, and nothing from a model is interpreted."""

from __future__ import annotations

from dataclasses import replace
from html.parser import HTMLParser

import pytest
import torch

from mindgap.records.check import CheckResult, PlatformResult
from mindgap.records.explanation import Cause, CauseKind, Explanation, Proof, Script, TracedOperator
from mindgap.records.outcome import Outcome, Stage, Status
from mindgap.records.platform import Probe
from mindgap.records.tensors import NamedTensor
from mindgap.records.verdict import Blame, Conclusion, Kind, Verdict
from mindgap.report.html import campaign_html, check_html, explanation_html, finding_html
from mindgap.session.session import Session
from tests.report.test_campaign import campaign

HOSTILE = "<script>alert('x')</script>\x1b[31m&"
ALLOWED = {"div", "table", "thead", "tbody", "tr", "th", "td", "p", "b", "br"}
WRONG = Verdict("inductor", Conclusion.DIVERGES, f"{HOSTILE} is 2, eager has 1", Kind.VALUE, Blame.CANDIDATE, 37.0)


def outcome(platform: str) -> Outcome:
    outputs = (NamedTensor("y", torch.zeros(1000)),)
    return Outcome(platform, Status.OK, Stage.RUN, outputs=outputs, note=HOSTILE)


def check() -> CheckResult:
    found = PlatformResult(outcome(HOSTILE), replace(WRONG, worst=f"{HOSTILE}[0]"), Probe(True))
    return CheckResult(HOSTILE, "float32", 0, 3, 10, {"x": "float32[1]"}, outcome("eager"), {HOSTILE: found})


def explanation() -> Explanation:
    step = TracedOperator(4, 1, "aten.div.Tensor_mode", HOSTILE, "int64", 9.0, 9.0, at_fault=True, wrong=3, elements=6)
    return Explanation(
        name="buckets",
        platform="openvino",
        version="1",
        verdict=WRONG,
        trace=(step,),
        culprits=(4,),
        is_together=False,
        note="",
        cause=Cause(CauseKind.IMPLEMENTATION, HOSTILE),
        layer=None,
        proof=Proof(WRONG, Status.OK, Stage.RUN, ("aten.div.Tensor_mode",), 6, survived=True, stable=True),
        script=Script("repro.py", reproduces=True, said=HOSTILE),
    )


class Tags(HTMLParser):
    """The tags and texts of a page; an unbalanced one is a mistake."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.seen: set[str] = set()
        self.open: list[str] = []
        self.texts: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: object) -> None:
        self.seen.add(tag)
        if tag != "br":
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


@pytest.mark.parametrize(
    "page",
    [
        check_html(check()),
        explanation_html(explanation()),
        campaign_html(campaign()),
        finding_html(replace(campaign().findings[0], explanation=explanation(), message=HOSTILE)),
        finding_html(replace(campaign().findings[2], message=HOSTILE)),
    ],
)
def test_a_page_is_a_small_table_of_text(page: str) -> None:
    tags = Tags(page)
    assert not tags.open and {"table", "td"} <= tags.seen <= ALLOWED
    assert "\x1b" not in page and len(page) < 15_000


def test_a_page_says_what_the_terminal_says() -> None:
    texts = Tags(check_html(check())).texts
    assert "diverges (value)" in texts and "37x" in texts and "1 platform diverges." in texts
    assert any("<script>" in text for text in texts)
    shown = Tags(explanation_html(explanation())).texts
    assert {"where", "cause", "witness", "repro"} <= set(shown)
    assert any("operator 1 of 1" in text for text in shown)
    assert "What ran" in Tags(campaign_html(campaign())).texts


def test_records_show_themselves() -> None:
    found = campaign()
    for record in (check(), explanation(), found, *found.findings):
        assert "<table" in record._repr_html_()
        assert len(repr(record)) < 200 and "tensor(" not in repr(record)
    failed = Outcome("openvino", Status.ERROR, Stage.CONVERT, "no rule for it")
    with Session() as session:
        for small in (outcome("eager"), failed, WRONG, outcome("eager").outputs[0], check().platforms, session):
            assert len(repr(small)) < 250 and "tensor(" not in repr(small), repr(small)
    assert repr(replace(outcome("eager"), note="")) == "<Outcome eager: ok, y float32[1000]>"
    assert repr(failed) == "<Outcome openvino: error at convert: no rule for it>"
    assert repr(replace(WRONG, sentence="y is 2")) == "<Verdict inductor diverges (value): y is 2>"
    assert repr(replace(check(), model="m")).startswith("<CheckResult m float32: ")
    assert "tensor(" not in repr(check().platforms)
    assert repr(explanation()).startswith("<Explanation openvino aten.div.Tensor_mode: operator implementation")
    assert repr(found) == "<Campaign out: 100 variants, 3 findings>"
    assert repr(found.findings[2]).startswith("<Finding F-03 openvino: crash at killed by SIGSEGV")

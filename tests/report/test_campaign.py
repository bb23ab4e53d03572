"""The summary answers: what did not run, what diverges, who is wrong, what to look at first."""

from __future__ import annotations

from dataclasses import replace

from mindgap.campaign.plan import Plan
from mindgap.campaign.progress import Snapshot
from mindgap.campaign.reader import AtFault, Campaign, PlatformCounts, Run, Yield
from mindgap.campaign.triage import group
from mindgap.records.finding import Finding
from mindgap.records.progress import Lane
from mindgap.report.campaign import (
    campaign_markdown,
    consistency_tables,
    execution_table,
    first_looks,
    progress_text,
    split,
    undecided,
    yield_sections,
)
from tests.campaign.test_triage import evidence, failure


def campaign() -> Campaign:
    found = group(
        [
            evidence(1, "inductor", sentence="output[0] is 2, eager has 1 | <b>"),
            failure(3, "openvino", "crash", "killed by SIGSEGV"),
            evidence(4, "inductor", operator="aten.sin.default", sentence="a | <b>"),
        ]
    )
    findings: list[Finding] = [replace(item, id=f"F-{n:02d}") for n, item in enumerate(found, 1)]
    findings[1] = replace(findings[1], known="torch-1")
    return Campaign(
        directory="out",
        plan=Plan(("eager", "inductor", "openvino"), 100, shares={"openvino": 0.5}),
        runs=(Run("2026-11-16T00:00:00Z", {"torch": "2.13.0"}),),
        variants=100,
        bases=7,
        intents={"valid": 100},
        platforms=(
            PlatformCounts("eager", "2", "cpu", 100, {"ok": 98, "rejected": 2}, {}, 1.0),
            PlatformCounts("inductor", "2", "cpu", 100, {"ok": 90, "error": 10},
                           {"agrees": 80, "diverges": 2, "failed": 10, "hazard": 8}, 9.0,
                           {"agrees": 80, "diverges": 2, "failed": 10, "hazard": 8}),
            PlatformCounts("openvino", "1", "cpu", 50, {"ok": 44, "crash": 1}, {"rounding": 44, "failed": 1}, 2.0),
        ),
        findings=tuple(findings),
        hazards={"tie-order": 8},
        unjudged={"it is ill-conditioned": 2},
    )  # fmt: skip


def test_what_did_not_run_is_counted_for_every_platform() -> None:
    titles, rows = execution_table(campaign())
    assert titles == ["platform", "ran", "ok", "rejected", "error", "crash", "waiting"]
    assert rows[1] == ["inductor", "100", "90 (90%)", "0", "10 (10%)", "0", ""]
    assert rows[2][-2:] == ["1 (2.2%)", "5"]


def test_compiled_against_eager_has_a_table_of_its_own() -> None:
    titles = dict(consistency_tables(campaign()))
    columns, rows = titles["Compiled against eager"]
    assert columns == ["compiled", "against", "variants", "same bits", "diverges", "hazard", "did not run"]
    assert rows == [["inductor", "eager", "100", "80 (80%)", "2 (2%)", "8 (8%)", "10 (10%)"]]
    assert titles["Outputs compared with eager"][1][1][:2] == ["openvino", "44"]


def test_known_findings_are_apart_and_the_gravest_new_one_is_named_first() -> None:
    divergences, failures, known = split(campaign())
    assert [len(part) for part in (divergences, failures, known)] == [1, 1, 1]
    looks = first_looks(campaign())
    assert looks[0].startswith("F-01  inductor: aten.") and looks[1].startswith("F-03  openvino: crash at compile")


def test_what_was_not_traced_comes_after_what_names_its_operator() -> None:
    given = campaign()
    first = given.findings[0]
    vague = replace(first, id="F-09", operator="", explanation=None)
    looks = first_looks(replace(given, findings=(vague, *given.findings)))
    assert [look[:4] for look in looks[:2]] == [first.id, "F-09"]


def test_what_was_not_decided_is_said() -> None:
    lines = undecided(campaign())
    assert any("tie-order 8" in line for line in lines)
    assert any("ill-conditioned (2)" in line for line in lines)
    assert "openvino has 5 variants still to run" in lines


def test_the_page_cannot_be_broken_by_a_message() -> None:
    page = campaign_markdown(campaign())
    assert "\\<b\\>" in page and "\\|" in page
    for title in ("What to look at first", "What ran", "What diverges", "What did not run", "Already known"):
        assert f"## {title}" in page


def test_progress_in_one_line() -> None:
    lanes = {"eager": Lane(100, 50), "inductor": Lane(20, 2)}
    now = Snapshot("run", 10.0, 50, 100, 5.0, 72.0, lanes, {"diverges": 2}, judging=7)
    assert progress_text(now) == (
        "50 of 100 variants, 5.0/s, 72 s left; inductor 2 of 20; 2 diverges; 7 verdicts waiting"
    )
    late = replace(now, phase="late", finished=100, left_s=None, judging=0)
    assert progress_text(late) == "100 of 100 variants; eager 50 of 100, inductor 2 of 20; 2 diverges"
    assert "2 diverges (1 kind of finding, 0 explained);" in progress_text(replace(now, kinds=1))
    assert progress_text(replace(now, paused="no space left\n  where x")) == "paused: no space left where x"
    explaining = replace(now, phase="explain", explanations=Lane(9, 2), traces=Lane(0), left_s=130.0)
    assert progress_text(explaining) == "explaining findings: 2 of 9 explanations, 2 min left"
    assert progress_text(replace(explaining, left_s=0.0)).endswith(
        "their time is over, the one at hand is being finished"
    )
    related = replace(now, phase="relations", relations={"eager": Lane(8, 8), "openvino": Lane(8, 4)})
    assert progress_text(related) == "running programs that must agree with each other: openvino 4 of 8, 72 s left"


def with_yields(count: int) -> Campaign:
    brought = [Yield("inductor", f"m{n}", n % 2 == 0, 10, 1, 1, 36.0) for n in range(count)]
    return replace(
        campaign(),
        yields=(*brought, Yield("inductor", "barren", True, 10, 0, 0, 36.0)),
        platform_yields=(Yield("inductor", "", True, 1200, 2, 1, 36.0), Yield("inductor", "", False, 5, 1, 1, 36.0)),
        at_fault=(AtFault("inductor", "aten.sin.default", "value", 2, 1),),
    )


def test_yields_tell_fragments_from_whole_variants_and_name_operators() -> None:
    found = dict(yield_sections(with_yields(40)))
    assert [row[:3] for row in found["What each platform brought"][1]] == [
        ["inductor", "fragments", "1,200"],
        ["inductor", "whole variants", "5"],
    ]
    fragments, whole = (found[f"What each mutation brought in {kind}"][1] for kind in ("fragments", "whole variants"))
    assert len(fragments) == len(whole) == 20, "none is cut, and what brought nothing is left out"
    assert fragments[0] == ["inductor", "m0", "10", "1", "1", "100"]
    assert found["What each operator brought"][1] == [["inductor", "aten.sin.default", "value", "2", "1"]]


def test_a_terminal_shows_the_first_yields_and_says_so() -> None:
    titles = [title for title, _ in yield_sections(with_yields(40), most=12)]
    assert "What each mutation brought in fragments (the first 12 of 20)" in titles
    assert not list(yield_sections(campaign()))

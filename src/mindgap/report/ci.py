"""Results for build servers: JUnit XML, and a Markdown summary for a pull request. Pure functions."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final
from xml.etree import ElementTree

from mindgap.campaign.reader import Campaign
from mindgap.operators.observed import Grade
from mindgap.records.finding import Finding
from mindgap.report.campaign import headline, operator_of, split, undecided, wrong
from mindgap.report.comparison import APPEARED, CHANGED, FIXED, KINDS, Comparison, summary_rows
from mindgap.report.documents import NOT_EXERCISED, OperatorsDocument
from mindgap.report.markdown import cell, markdown_table
from mindgap.report.results import BAD, Result, operator_result
from mindgap.report.summary import many, multiple
from mindgap.report.terminal import plain_text, shortened

MOST_ROWS: Final = 50
"""Rows of a summary: a comment on a pull request holds 65,536 characters."""
_FAILING: Final = ("diverges", "failed", "unstable")
_OPEN: Final = ("hazard", "unjudged", Grade.UNJUDGED.value, NOT_EXERCISED)
PASSED, FAILED, SKIPPED = "passed", "failed", "skipped"


@dataclass(frozen=True, slots=True)
class Test:
    """One line of a build server."""

    suite: str
    name: str
    state: str
    message: str = ""
    seconds: float = 0.0


def result_tests(results: Sequence[Result], failing: Collection[str]) -> Iterator[Test]:
    """A test per subject and platform; what is known, a hazard or not judged is skipped unless it is to fail."""
    for line in results:
        word = "failed" if line.word in BAD and line.word not in ("diverges", "unstable") else line.word
        kind = f" ({line.kind})" if line.kind else ""
        message = f"{line.word}{kind}: {line.said}" if line.said else f"{line.word}{kind}"
        if word in failing and not line.known:
            state = FAILED
        else:
            state = SKIPPED if line.known or line.word in (*_OPEN, *BAD) else PASSED
        known = f"known: {line.known}. " if line.known else ""
        yield Test(line.subject, line.platform, state, known + message if state != PASSED else "", line.seconds)


def operator_tests(found: OperatorsDocument, worse: Collection[tuple[str, str]] | None = None) -> Iterator[Test]:
    """A test per operator, dtype and platform; `worse` are those that a baseline has better: then only they fail."""
    for line in map(operator_result, found.cells):
        is_known = worse is not None and line.is_bad and (line.platform, line.subject) not in worse
        yield from result_tests([replace(line, known="in the baseline") if is_known else line], _FAILING)


def campaign_tests(campaign: Campaign, failing: Collection[str]) -> Iterator[Test]:
    """A test per finding, and one per platform that says how much ran."""
    for item in (*campaign.platforms, *campaign.fragment_platforms):
        yield Test("mindgap hunt", f"{item.name}: {many(item.done, 'program')} ran", PASSED, seconds=item.seconds)
    for finding in campaign.findings:
        is_new = not finding.known and finding.witness.conclusion.value in failing
        known = f"known: {finding.known}. " if finding.known else ""
        name = f"{finding.id or 'new'} {wrong(finding)}: {operator_of(finding) or finding.kind}"
        yield Test("mindgap hunt", name, FAILED if is_new else SKIPPED, known + _said(finding))


def _said(finding: Finding) -> str:
    return finding.witness.sentence or finding.witness.message or finding.kind


def comparison_tests(comparison: Comparison, failing: Collection[str]) -> Iterator[Test]:
    """A test per change; what was fixed passes."""
    for change in comparison.changes:
        state = FAILED if change.what in failing else PASSED if change.what == FIXED else SKIPPED
        yield Test(change.subject, change.platform, state, f"{change.what}: {change.said}" if state != PASSED else "")


def junit(tests: Sequence[Test], name: str) -> str:
    """JUnit XML, as Jenkins, GitLab and the reporters of GitHub read it."""
    root = ElementTree.Element("testsuites", _counts(tests, name))
    for suite in dict.fromkeys(test.suite for test in tests):
        own = [test for test in tests if test.suite == suite]
        part = ElementTree.SubElement(root, "testsuite", _counts(own, suite))
        for test in own:
            case = ElementTree.SubElement(
                part, "testcase", {"classname": _xml(suite), "name": _xml(test.name), "time": f"{test.seconds:.3f}"}
            )
            if test.state != PASSED:
                kind = "failure" if test.state == FAILED else "skipped"
                element = ElementTree.SubElement(case, kind, {"message": _xml(test.message)[:500]})
                element.text = _xml(test.message)
    ElementTree.indent(root, " ")
    return '<?xml version="1.0" encoding="utf-8"?>\n' + ElementTree.tostring(root, encoding="unicode") + "\n"


def _counts(tests: Sequence[Test], name: str) -> dict[str, str]:
    return {
        "name": _xml(name),
        "tests": str(len(tests)),
        "failures": str(sum(test.state == FAILED for test in tests)),
        "skipped": str(sum(test.state == SKIPPED for test in tests)),
        "errors": "0",
        "time": f"{sum(test.seconds for test in tests):.3f}",
    }


def _xml(text: str) -> str:
    """XML cannot hold control characters at all."""
    return plain_text(text)


def results_markdown(title: str, sentence: str, results: Sequence[Result]) -> str:
    """A check as a comment on a pull request: what is wrong first."""
    loud = [line for line in results if line.word not in ("agrees", "rounding")]
    quiet = len(results) - len(loud)
    lines = [f"### {cell(title)}", "", f"{cell(sentence)}", ""]
    if loud:
        titles = ["model", "platform", "verdict", "error / rounding", "why"]
        lines += markdown_table(titles, [_row(line) for line in loud[:MOST_ROWS]])
        more = len(loud) - MOST_ROWS
        lines += ["", f"and {more} more."] if more > 0 else []
    lines += ["", f"{many(quiet, 'other result')} within rounding."] if quiet else []
    return "\n".join([*lines, ""])


def _row(line: Result) -> list[str]:
    kind = f" ({line.kind})" if line.kind else ""
    known = f", known: {line.known}" if line.known else ""
    return [
        shortened(line.subject),
        line.platform,
        f"{line.word}{kind}{known}",
        multiple(line.error),
        shortened(line.said),
    ]


def campaign_summary(campaign: Campaign, conclusion: str) -> str:
    """A campaign as a comment on a pull request; summary.md has everything."""
    divergences, failures, known = split(campaign)
    lines = [f"### {cell(headline(campaign))}", "", cell(conclusion), ""]
    found = [*divergences, *failures]
    if found:
        rows = [
            [f.id or "new", wrong(f), operator_of(f) or f.kind, str(f.bases), shortened(_said(f))]
            for f in found[:MOST_ROWS]
        ]
        lines += [*markdown_table(["id", "wrong", "operator", "models", "why"], rows), ""]
        lines += [f"and {many(len(found) - MOST_ROWS, 'more finding')}.", ""] if len(found) > MOST_ROWS else []
    lines += [f"- {cell(line)}" for line in undecided(campaign)]
    lines += [f"- {many(len(known), 'finding')} known already"] if known else []
    return "\n".join([*lines, ""])


def comparison_markdown(comparison: Comparison) -> str:
    """A comparison as a comment on a pull request."""
    versions = [f"{name} {a} to {b}" for name, (a, b) in comparison.changed_versions.items()]
    lines = [
        f"### {cell(comparison.old.name)} against {cell(comparison.new.name)}",
        "",
        cell(comparison.sentence),
        "",
        cell("Versions: " + (", ".join(versions) if versions else "the same") + "."),
        "",
    ]
    if comparison.changes:
        lines += [*markdown_table(["platform", *KINDS], summary_rows(comparison)), ""]
    loud = [change for change in comparison.changes if change.what in (APPEARED, CHANGED)]
    if loud:
        titles = ["change", "subject", "platform", "before", "now", "why"]
        rows = [
            [c.what, shortened(c.subject), c.platform, _told(c.old), _told(c.new), shortened(c.said)]
            for c in loud[:MOST_ROWS]
        ]
        lines += markdown_table(titles, rows)
        lines += ["", f"and {len(loud) - MOST_ROWS} more."] if len(loud) > MOST_ROWS else []
    return "\n".join([*lines, ""])


def _told(line: Result | None) -> str:
    return f"{line.word} {multiple(line.error)}".strip() if line is not None else "not run"

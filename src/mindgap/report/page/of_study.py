"""A study as the content of a page: its figures and tables, with a page beside it for each phase."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from mindgap.campaign.matrix import pairs_of
from mindgap.campaign.reader import Campaign, open_ledger
from mindgap.records.finding import Finding
from mindgap.report.page.content import Content, Entry, Figure, Link, Table
from mindgap.report.page.findings import head_of, page_id, story
from mindgap.report.page.method import method_of_results
from mindgap.report.page.of_campaign import figures_of
from mindgap.report.study import headline, spent_line
from mindgap.report.summary import many
from mindgap.study.budget import read_turns
from mindgap.study.plan import MODELS, OPERATORS, VARIANTS, open_plan
from mindgap.study.tables import Counted, campaigns_of, distinct_findings, tables_of

MOST_FIRST = 8
"""Entries of the list of what to fix first."""
SHOWN = ("programs", "margins", "operators", "issues", "experiments", "cost", "whole")
"""Tables on the page; the figures show the others, and study.json has all."""
TITLES = {MODELS: "Unmodified models", VARIANTS: "Variants"}


def study_content(directory: Path) -> Content:
    """A study as it is now."""
    plan, turns, campaigns = open_plan(directory, None), read_turns(directory), campaigns_of(directory)
    tables = tables_of(directory, turns, campaigns)
    found = distinct_findings(campaigns)
    versions: dict[str, str] = {}
    for campaign in campaigns.values():
        versions |= campaign.versions
    return Content(
        title="Inconsistencies across platforms",
        subject="study",
        conclusion=f"{headline(campaigns)}.",
        mood="diverges" if any(item.category != "failure" for _, item in found) else "failed" if found else "agrees",
        strip=[*versions.items(), ("seed", str(plan.seed)), ("corpus", plan.called)],
        answers=_phases(campaigns),
        not_decided=[spent_line(turns)],
        figures=tuple(_figures(directory, campaigns)),
        tables=tuple(_table(item) for item in tables if item.name in SHOWN and item.rows),
        first=list(_first(found, campaigns)),
        method=method_of_results("\n".join(f"{item.title}: {item.counted}." for item in tables)),
    )


def page_of(phase: str) -> str:
    """The file of a phase's own page, beside that of the study."""
    return f"{phase}.html"


def _phases(campaigns: Mapping[str, Campaign]) -> Table:
    rows = [
        [
            Link(phase, page_of(phase)),
            many(item.variants + item.fragments, "program"),
            many(sum(p.done for p in (*item.platforms, *item.fragment_platforms)), "run"),
            many(len(item.findings), "finding"),
        ]
        for phase, item in campaigns.items()
    ]
    return Table("Every phase", ["phase", "made", "on all platforms", "found"], rows)


def _figures(directory: Path, campaigns: Mapping[str, Campaign]) -> Iterator[Figure]:
    for phase, title in TITLES.items():
        if phase not in campaigns:
            continue
        with open_ledger(directory / phase) as data:
            pairs = pairs_of(data)
        for figure in figures_of(campaigns[phase], pairs):
            bars = tuple(replace(bar, link=f"{page_of(phase)}{bar.link}" if bar.link else "") for bar in figure.bars)
            yield replace(figure, id=f"{phase}-{figure.id}", title=f"{title}: {figure.title}", bars=bars)


def _table(table: Counted) -> Table:
    return Table(f"{table.title}: {table.counted}", table.columns, table.rows)


def _first(found: Sequence[tuple[str, Finding]], campaigns: Mapping[str, Campaign]) -> Iterator[Entry]:
    """Wrong results before what does not run, traced ones before others; those that touch most models first."""
    ranked = sorted(found, key=lambda item: (item[1].category == "failure", item[1].is_vague, -item[1].bases))
    for phase, finding in ranked[:MOST_FIRST]:
        number = next(n for n, item in enumerate(campaigns[phase].findings) if item.signature == finding.signature)
        place = "" if phase == OPERATORS else f"#/finding/{page_id(finding, number)}"  # its page has cells instead
        reach = f"{phase}: {many(finding.bases, 'model')}"
        yield Entry(head_of(finding), story(finding), page_of(phase) + place, reach)

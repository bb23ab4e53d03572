"""A study for readers: what is planned, what came out, and how each number was counted; pure functions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import datetime, timezone
from typing import Any, Final

from mindgap.campaign.plan import BASELINE
from mindgap.campaign.reader import Campaign
from mindgap.records.progress import duration
from mindgap.report.markdown import made_with, markdown_table
from mindgap.report.summary import finite, many
from mindgap.study.budget import MODELS_SHARE, Turn
from mindgap.study.plan import MODELS, OPERATORS, PHASES, StudyPlan
from mindgap.study.tables import Counted, distinct_findings

SCHEMA: Final = "mindgap.study/1"
PLANNED: Final = ("phase", "platform", "ran so far", "per minute", "in the time given", "of", "left out")
MOST_ROWS: Final = 40
"""Of a table in a summary; its file has all."""


def planned_rows(
    plan: StudyPlan, turns: Sequence[Turn], hours: float, due: Mapping[str, int | None]
) -> list[list[str]]:
    """What each platform will have run when the time is over, at the pace that it had so far, in each phase of `due`.

    Models have a third of the time at most; what is left is shared evenly, as nobody knows yet where something is
    found.
    """
    rows = []
    others = sum(phase != MODELS for phase in due)
    models_share = MODELS_SHARE * (MODELS in due) if others else 1.0
    for phase in due:
        mine = [turn for turn in turns if turn.phase == phase]
        spent = sum(turn.seconds for turn in mine)
        share = models_share if phase == MODELS else (1 - models_share) / others
        for platform in plan.platforms:
            if platform == BASELINE:
                continue
            ran = mine[-1].done.get(platform, 0) if mine else 0
            pace = ran / spent if spent else 0.0
            most = due[phase]
            expected = ran + round(pace * share * 3600 * hours)
            shown = expected if most is None else min(expected, most)
            left = "" if most is None else f"{max(0, most - shown):,}"
            rows.append(
                [phase, platform, f"{ran:,}", f"{60 * pace:.1f}" if mine else "not measured", f"{shown:,}",
                 "all that can be made" if most is None else f"{most:,}", left]
            )  # fmt: skip
    return rows


def headline(campaigns: Mapping[str, Campaign]) -> str:
    """The study in one sentence."""
    models = campaigns.get(MODELS)
    made = sum(item.variants + item.fragments for phase, item in campaigns.items() if phase not in (MODELS, OPERATORS))
    names = sorted({name for item in campaigns.values() for name in item.plan.platforms} - {BASELINE})
    found = [finding for _, finding in distinct_findings(campaigns)]
    wrong = sum(finding.category != "failure" for finding in found)
    return (
        f"{many(models.variants if models else 0, 'real model')}, and {many(made, 'program')} made from them, on "
        f"{', '.join(names)} next to {BASELINE}: {many(wrong, 'root cause')} of wrong results and "
        f"{len(found) - wrong:,} of programs that do not run"
    )


def study_document(
    plan: StudyPlan, campaigns: Mapping[str, Campaign], tables: Sequence[Counted], operators: Mapping[str, Any] | None
) -> dict[str, Any]:
    """The JSON of a study: every table with how it was counted, and the operators as `mindgap ops` writes them."""
    return {
        "schema": SCHEMA,
        "created": datetime.now(timezone.utc).isoformat(timespec="seconds"),
        "versions": _versions(campaigns),
        "plan": asdict(plan),
        "summary": headline(campaigns),
        "tables": {
            table.name: {
                "title": table.title,
                "counted": table.counted,
                "columns": list(table.columns),
                "rows": [[finite(cell) if isinstance(cell, float) else cell for cell in row] for row in table.rows],
            }
            for table in tables
        },
        "operators": operators,
    }


def study_markdown(campaigns: Mapping[str, Campaign], tables: Sequence[Counted]) -> str:
    """The tables as a page; of long ones the first rows."""
    lines = ["# Study", "", f"{headline(campaigns)}.", "", made_with(_versions(campaigns)), ""]
    for table in tables:
        shown = [[_text(cell) for cell in row] for row in table.rows[:MOST_ROWS]]
        lines += [f"## {table.title}", "", f"Counted: {table.counted}.", ""]
        lines += markdown_table(table.columns, shown) if shown else ["Nothing so far."]
        if len(table.rows) > MOST_ROWS:
            lines += ["", f"The first {MOST_ROWS} of {len(table.rows):,}; study.json has all."]
        lines.append("")
    return "\n".join(lines)


def ending_line(reason: str, directory: str, hours: float) -> str:
    """What to do next."""
    again = f"mindgap study -o {directory} --hours {hours:g} continues"
    if reason == "done":
        return "Everything that was planned has run."
    return f"The time is over: {again}." if reason == "time" else f"Interrupted; nothing is lost: {again}."


def spent_line(turns: Sequence[Turn]) -> str:
    """Where the time went."""
    parts = []
    for phase in PHASES:
        seconds = sum(turn.seconds for turn in turns if turn.phase == phase)
        if seconds:
            parts.append(f"{phase} {duration(seconds)}")
    return f"time spent: {', '.join(parts)}" if parts else "nothing has run yet"


def _versions(campaigns: Mapping[str, Campaign]) -> dict[str, str]:
    found: dict[str, str] = {}
    for campaign in campaigns.values():
        found |= campaign.versions
    return found


def _text(value: Any) -> str:
    if value is None:
        return ""
    return f"{value:.3g}" if isinstance(value, float) else f"{value:,}" if isinstance(value, int) else str(value)

"""Results as small HTML tables, for notebooks: pure functions, and every text is escaped."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from typing import Final

from mindgap.campaign.reader import Campaign
from mindgap.records.check import CheckResult
from mindgap.records.explanation import Explanation
from mindgap.records.finding import Finding
from mindgap.records.verdict import Conclusion
from mindgap.report.campaign import SHOWN, failures_table, findings_table, headline, sections
from mindgap.report.explain import explanation_facts, explanation_headline
from mindgap.report.summary import (
    CHECK_TITLES,
    check_facts,
    check_row,
    closing_line,
    eager_failure,
    export_line,
    left_out_lines,
    remarks,
)
from mindgap.report.terminal import plain_text

# Colours that can be read on a light and on a dark page; everything else is the notebook's own.
_GREEN, _RED, _AMBER = "#2e9e5b", "#d9534f", "#c98a1b"
_COLOURS: Final[Mapping[Conclusion, str]] = {
    Conclusion.AGREES: _GREEN,
    Conclusion.ROUNDING: _GREEN,
    Conclusion.DIVERGES: _RED,
    Conclusion.HAZARD: _AMBER,
    Conclusion.UNSTABLE: _RED,
    Conclusion.UNJUDGED: _AMBER,
    Conclusion.FAILED: _RED,
}
_LINE: Final = "1px solid rgba(128, 128, 128, 0.35)"
_CELL: Final = "text-align:left;vertical-align:top;padding:2px 14px 2px 0"
"""On every cell, because notebooks style cells themselves."""
_VERDICT: Final = CHECK_TITLES.index("verdict")


def check_html(result: CheckResult) -> str:
    """The table of one check, with the remarks under it."""
    rows = [check_row(name, item) for name, item in result.platforms.items()]
    colours = {
        (number, _VERDICT): _COLOURS[item.verdict.conclusion] for number, item in enumerate(result.platforms.values())
    }
    return _block(
        _line(eager_failure(result), _RED),
        _caption(result.model, check_facts(result)),
        _line(export_line(result), _AMBER),
        _table(CHECK_TITLES, rows, colours),
        *(_line(f"{names}: {said}", lead=len(names) + 1) for names, said, _ in remarks(result)),
        *map(_line, left_out_lines(result)),
        _caption(closing_line(result)),
    )


def campaign_html(campaign: Campaign) -> str:
    """The tables of a campaign, the first findings of each."""
    tables = (part for title, table in sections(campaign, SHOWN) for part in (_caption(title), _table(*table)))
    return _block(_caption(headline(campaign)), *tables)


def explanation_html(found: Explanation) -> str:
    """The operator, the cause and the proof, a row per label."""
    return _block(_caption(explanation_headline(found)), _table((), explanation_facts(found)))


def finding_html(finding: Finding) -> str:
    """A finding as its row in the campaign, with its explanation if there is one."""
    make = failures_table if finding.category == "failure" else findings_table
    explained = explanation_html(finding.explanation) if finding.explanation is not None else ""
    return _block(_table(*make([finding])), explained)


def _block(*parts: str) -> str:
    return f'<div style="font-size: 13px; line-height: 1.5; overflow-x: auto">{"".join(parts)}</div>'


def _table(
    titles: Sequence[str],
    rows: Sequence[Sequence[str | list[str]]],
    colours: Mapping[tuple[int, int], str] | None = None,
) -> str:
    """Rows under titles; `colours` of some cells by row and column."""
    head = "".join(_cell("th", title, f";border-bottom:{_LINE}") for title in titles)
    body = ""
    for number, row in enumerate(rows):
        painted = ((cell, (colours or {}).get((number, column))) for column, cell in enumerate(row))
        cells = (_cell("td", cell, f";color:{colour};font-weight:600" if colour else "") for cell, colour in painted)
        body += f"<tr>{''.join(cells)}</tr>"
    head = f"<thead><tr>{head}</tr></thead>" if titles else ""
    return (
        f'<table style="border-collapse:collapse;margin:4px 0;white-space:pre-wrap">{head}<tbody>{body}</tbody></table>'
    )


def _cell(tag: str, content: str | list[str], style: str) -> str:
    shown = "<br>".join(map(_text, [content] if isinstance(content, str) else content))
    return f'<{tag} style="{_CELL}{style}">{shown}</{tag}>'


def _caption(text: str, rest: str = "") -> str:
    return f'<p style="margin: 4px 0"><b>{_text(text)}</b>{"  " if rest else ""}{_text(rest)}</p>'


def _line(text: str, colour: str = "inherit", lead: int = 0) -> str:
    """A line of its own whose first characters stand out; nothing where there is no text."""
    start = f"<b>{_text(text[:lead])}</b>" if lead else ""
    return f'<p style="margin: 2px 0; color: {colour}">{start}{_text(text[lead:])}</p>' if text else ""


def _text(text: str) -> str:
    """Text from a model or a runtime is shown as it is, never interpreted."""
    return escape(plain_text(text))

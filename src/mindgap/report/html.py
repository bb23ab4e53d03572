"""Results as small HTML tables, for notebooks: pure functions, and every text is escaped."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from mindgap.campaign.reader import Campaign
from mindgap.records.check import CheckResult
from mindgap.records.explanation import Explanation
from mindgap.records.finding import Finding
from mindgap.report.campaign import SHOWN, failures_table, findings_table, headline, sections
from mindgap.report.explain import explanation_facts, explanation_headline
from mindgap.report.summary import CHECK_TITLES, check_facts, check_row, closing_line, plain_text, remark


def check_html(result: CheckResult) -> str:
    """The table of one check, with the remarks under it."""
    rows = [check_row(name, item) for name, item in result.platforms.items()]
    said = [f"{name}: {remark(item)}" for name, item in result.platforms.items() if remark(item)]
    return _caption(f"{result.model}  {check_facts(result)}") + _table(CHECK_TITLES, rows) + _lines(
        [*said, closing_line(result)]
    )  # fmt: skip


def campaign_html(campaign: Campaign) -> str:
    """The tables of a campaign, the first findings of each."""
    tables = [_lines([title]) + _table(*table) for title, table in sections(campaign, SHOWN)]
    return _caption(headline(campaign)) + "".join(tables)


def explanation_html(found: Explanation) -> str:
    """The operator, the cause and the proof, a row per label."""
    return _caption(explanation_headline(found)) + _table((), explanation_facts(found))


def finding_html(finding: Finding) -> str:
    """A finding as its row in the campaign, with its explanation if there is one."""
    make = failures_table if finding.category == "failure" else findings_table
    explained = explanation_html(finding.explanation) if finding.explanation is not None else ""
    return _table(*make([finding])) + explained


def _table(titles: Sequence[str], rows: Sequence[Sequence[str | list[str]]]) -> str:
    head = f"<thead>{_row('th', titles)}</thead>" if titles else ""
    body = "".join(_row("td", row) for row in rows)
    return f'<table style="text-align: left; white-space: pre-wrap">{head}<tbody>{body}</tbody></table>'


def _row(tag: str, cells: Sequence[str | list[str]]) -> str:
    shown = ("<br>".join(map(_text, [cell] if isinstance(cell, str) else cell)) for cell in cells)
    return f"<tr>{''.join(f'<{tag}>{cell}</{tag}>' for cell in shown)}</tr>"


def _caption(text: str) -> str:
    return f"<p><b>{_text(text)}</b></p>"


def _lines(lines: Sequence[str]) -> str:
    return f"<p>{'<br>'.join(map(_text, lines))}</p>"


def _text(text: str) -> str:
    """Text from a model or a runtime is shown as it is, never interpreted."""
    return escape(plain_text(text))

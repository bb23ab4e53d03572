"""A campaign on the terminal: a line that moves while it runs, tables at its end."""

from __future__ import annotations

import time
from types import TracebackType

from rich.text import Text

from mindgap.campaign.progress import Snapshot
from mindgap.campaign.reader import Campaign
from mindgap.report import campaign as words
from mindgap.report.console import make_console, show_line, show_table
from mindgap.report.summary import plain_text

PLAIN_S = 10.0
"""A log gets a line this often."""


class HuntProgress:
    """One line on stderr; every ten seconds a plain line when stderr is not a terminal."""

    def __init__(self) -> None:
        self._console = make_console(stderr=True)
        self._spinner = self._console.status("starting the platforms") if self._console.is_terminal else None
        self._shown = 0.0
        self._text = ""

    def __enter__(self) -> HuntProgress:
        if self._spinner is not None:
            self._spinner.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._spinner is not None:
            self._spinner.stop()

    def __call__(self, now: Snapshot) -> None:
        text = plain_text(words.progress_text(now))
        if self._spinner is not None:
            self._spinner.update(Text(text, overflow="ellipsis", no_wrap=True))
        elif time.monotonic() - self._shown >= PLAIN_S and text != self._text:
            self._shown = time.monotonic()
            self._text = text
            self._console.print(Text(f"{now.seconds:6.0f} s  {text}"))


def show_campaign(campaign: Campaign, reason: str) -> None:
    """What did not run, what diverges, who is wrong, and what to look at first."""
    divergences, failures, known = words.split(campaign)
    show_line(words.headline(campaign))
    _section("What ran", words.execution_table(campaign))
    for title, table in words.consistency_tables(campaign):
        _section(title, table)
    if divergences:
        _section(_title("What diverges", len(divergences)), words.findings_table(divergences[: words.SHOWN]))
    if failures:
        _section(_title("What did not run", len(failures)), words.failures_table(failures[: words.SHOWN]))
    if known:
        _section(_title("Known already", len(known)), words.findings_table(known[: words.SHOWN]))
    for line in words.undecided(campaign):
        show_line(line)
    show_line("")
    looks = words.first_looks(campaign)
    show_line("Look first at:" if looks else "Nothing was found.")
    for look in looks:
        show_line(f"  {look}")
    show_line("")
    show_line(words.ending_line(reason, campaign.directory))


def _title(title: str, count: int) -> str:
    return title if count <= words.SHOWN else f"{title} (the first {words.SHOWN} of {count})"


def _section(title: str, table: words.Table) -> None:
    show_line("")
    show_line(title)
    show_table(*table)

"""A campaign on the terminal: a line that moves while it runs, tables at its end."""

from __future__ import annotations

import time

from mindgap.campaign.progress import Snapshot
from mindgap.campaign.reader import Campaign
from mindgap.report import campaign as words
from mindgap.report.console import Moving, show_line, show_table
from mindgap.report.terminal import plain_text

PLAIN_S = 10.0
"""A log gets a line this often."""


class HuntProgress(Moving):
    """The campaign in one line; every ten seconds a plain line when stderr is not a terminal."""

    def __init__(self, noun: str = "variants") -> None:
        super().__init__()
        self._noun = noun
        self._text, self._logged_text, self._logged = "starting the platforms", "", 0.0

    def __call__(self, now: Snapshot) -> None:
        self._text = plain_text(words.progress_text(now, self._noun))
        if time.monotonic() - self._logged >= PLAIN_S and self._text != self._logged_text:
            self._logged, self._logged_text = time.monotonic(), self._text
            self.log(self._text)

    def line(self) -> str:
        return self._text


class StudyProgress(HuntProgress):
    """A study in one line: the phase that has its turn, and how far that is."""

    def of_phase(self, phase: str, now: Snapshot) -> None:
        self._noun = "models" if phase == "models" else "invocations" if phase == "operators" else "programs"
        self._prefix = f"{phase}: "
        self(now)

    _prefix = ""

    def line(self) -> str:
        return self._prefix + super().line()


def show_campaign(campaign: Campaign, reason: str) -> None:
    """What did not run, what diverges, which platform is wrong, and what to look at first."""
    show_line(words.headline(campaign))
    for title, table in words.sections(campaign, words.SHOWN):
        show_line(f"\n{title}")
        show_table(*table)
    for line in words.undecided(campaign):
        show_line(line)
    looks = words.first_looks(campaign)
    show_line("\nLook first at:" if looks else "\nNothing was found.")
    for look in looks:
        show_line(f"  {look}")
    show_line(f"\n{words.ending_line(reason, campaign.directory)}")

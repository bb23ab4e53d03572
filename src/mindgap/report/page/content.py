"""What a page shows, whatever it is about: plain data that the builders fill and the renderer writes down."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import quote

from mindgap.report.terminal import plain_text

GLYPHS: Final = {
    "ok": "✓", "agrees": "✓", "same bits": "✓", "rounding": "≈", "same fault": "=", "diverges": "✗", "differs": "✗",
    "unstable": "↯", "hazard": "△", "unjudged": "?", "not judged": "?", "failed": "⊘", "did not run": "⊘",
    "unsupported": "⊘", "rejected": "⊘", "error": "!", "crash": "‼", "timeout": "◷", "oom": "▣", "waiting": "…",
    "works": "✓", "not exercised": "·", "not run": "·",
    "agrees bitwise": "✓", "wrong": "✗", "accepts invalid input": "✗", "rejects valid input": "⊘", "hang": "◷",
    "out of memory": "▣", "compile error": "!", "not convertible": "⊘",
    "appeared": "✗", "fixed": "✓", "changed": "△",
    "hidden branch": "✗", "suspicious": "△", "none found": "✓", "only in the copy": "△",
}  # fmt: skip
"""A sign for every word, so that no colour has to be told from another."""

MOST_MODELS: Final = 400
MOST_FINDINGS: Final = 2_000
MOST_DETAILS: Final = 400
MOST_RUNS: Final = 10_000
"""Lists end here, and the page says so. Pages of 50 MB are closed before they are read."""


@dataclass(frozen=True, slots=True)
class Bar:
    """A part of a bar: how many of a row are what."""

    row: str
    word: str
    count: int
    total: int
    link: str = ""


@dataclass(frozen=True, slots=True)
class Figure:
    """Stacked bars, a row per platform or pair."""

    id: str
    title: str
    caption: str
    bars: tuple[Bar, ...]
    words: tuple[str, ...]
    """In the order in which they are stacked."""

    def rows(self) -> list[str]:
        return list(dict.fromkeys(bar.row for bar in self.bars))


@dataclass(frozen=True, slots=True)
class Table:
    """Rows under titles; a cell is text, a number, or `Link`."""

    caption: str
    titles: Sequence[str]
    rows: Sequence[Sequence[Any]]


@dataclass(frozen=True, slots=True)
class Link:
    """Text that leads to another place of the page."""

    text: str
    to: str
    word: str = ""
    """A word whose sign and colour the text has."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One of the things to fix first: a headline, what is known of it, and where it leads."""

    head: str
    text: str
    to: str
    reach: str
    """How many models and programs it touches."""


@dataclass(frozen=True, slots=True)
class Content:
    """Everything that one page shows."""

    title: str
    subject: str
    """`campaign`, `check`, `operator sweep`, `audit` or `comparison`."""
    conclusion: str
    mood: str
    """The word whose sign and colour go with the conclusion: `agrees`, `diverges`, `failed`, `unjudged`."""
    strip: Sequence[tuple[str, str]]
    """Versions, devices, flags, seed: labels with values."""
    answers: Table | None = None
    """Does it run there, are the answers right: a row per platform under the conclusion."""
    not_decided: Sequence[str] = ()
    """What was not run or could not be judged."""
    figures: Sequence[Figure] = ()
    tables: Sequence[Table] = ()
    first: Sequence[Entry] = ()
    """What to fix first."""
    sections: Mapping[str, Any] = field(default_factory=dict)
    """By name, the data of `consistency`, `operators`, `changes`, `gates`, `findings` and `runs`; a missing one is not
    shown."""
    details: Sequence[Mapping[str, Any]] = ()
    """A page for each finding or gate, in the order of `findings` or `gates`."""
    method: Sequence[tuple[str, str]] = ()
    """How it was made and what was left out: headings with text, a paragraph per line."""


def to(section: str, query: str = "") -> str:
    """The address of a section, with a filter: all state of the page is in its hash."""
    return f"#/{section}" + (f"?q={quote(query, safe='')}" if query else "")


def term(key: str, value: str) -> str:
    """One term of a filter: `p:openvino`; what has spaces is quoted, and of what holds quotes the longest part."""
    shown = max(plain_text(value).split('"'), key=len)
    return f'{key}:"{shown}"' if shown.split() != [shown] else f"{key}:{shown}"


def plain(value: Any) -> Any:
    """The same data for JSON, which has no infinity and no NaN: they become text that the page reads back."""
    if isinstance(value, str):
        return plain_text(value)
    if isinstance(value, Mapping):
        return {plain_text(str(key)): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, float):
        return round_to(value) if math.isfinite(value) else str(value)
    return value


def round_to(value: float) -> float:
    """Four digits, which is more than anybody reads."""
    return float(f"{value:.4g}")

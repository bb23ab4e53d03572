"""A console, text that is safe to show there, and errors; without torch, so that mistakes are told at once."""

from __future__ import annotations

import unicodedata
from typing import Final

from rich.console import Console
from rich.text import Text

from mindgap.errors import MindgapError

PLAIN_WIDTH: Final = 200  # a pipe has no width; tables are not cut there


def make_console(stderr: bool = False) -> Console:
    """A console that is plain, and wide enough for any table, when it is not a terminal."""
    console = Console(stderr=stderr, highlight=False, emoji=False, markup=False)
    if not console.is_terminal:
        console.width = PLAIN_WIDTH
    return console


def plain_text(text: str) -> str:
    """Text from a model or a runtime without control characters: nothing moves a cursor or turns the text around."""
    if text.isprintable():
        return text
    return "".join(c if c in "\n\t" or unicodedata.category(c)[0] != "C" else "�" for c in text)


def shortened(text: str, most: int = 300) -> str:
    """Text that may be as long as a model wants."""
    return text if len(text) <= most else f"{text[: most - 1]}…"


def show_error(error: MindgapError) -> None:
    """What, where, why and what next."""
    make_console(stderr=True).print(Text("error: ", style="bold red") + Text(plain_text(str(error))))

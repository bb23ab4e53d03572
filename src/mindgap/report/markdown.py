"""Tables as Markdown, safe for whatever text a model or a runtime brings."""

from __future__ import annotations

from collections.abc import Sequence

from mindgap.report.summary import plain_text


def markdown_table(titles: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """The lines of a table."""
    return [
        f"| {' | '.join(titles)} |",
        f"|{'---|' * len(titles)}",
        *(f"| {' | '.join(map(cell, row))} |" for row in rows),
    ]


def cell(text: str) -> str:
    """Text from a model or a runtime cannot break a table or become markup."""
    plain = plain_text(text).replace("\n", " ")
    for character in "\\`*_[]<>|":
        plain = plain.replace(character, f"\\{character}")
    return plain

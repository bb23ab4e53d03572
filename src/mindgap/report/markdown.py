"""Tables as Markdown, safe for whatever text a model or a runtime brings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timezone
from typing import Any

from mindgap.report.terminal import plain_text


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


def made_with(versions: Mapping[str, str]) -> str:
    """Today's date and the versions."""
    named = ", ".join(f"{name} {version}" for name, version in versions.items())
    return f"{datetime.now(timezone.utc):%Y-%m-%d}; {named}."


def measurement_markdown(document: Mapping[str, Any], command: str) -> str:
    """A benchmark as a page that says what was measured, on what, when, and by which command."""
    what = document["what"]
    lines = [
        f"# {document['name']}",
        "",
        f"{what[:1].upper()}{what[1:]}.",
        "",
        f"On {document['on']}. {made_with(document['versions'])} Made by `{command}`.",
        "",
        *markdown_table(list(document["rows"][0]), [list(map(str, row.values())) for row in document["rows"]]),
        "",
        *document["conclusion"].splitlines(),
        "",
    ]
    return "\n".join(lines)

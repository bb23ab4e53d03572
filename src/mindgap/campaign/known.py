"""Findings that somebody has reported already: `known.toml`.

[[known]]
id = "pytorch-12345"
pattern = "inductor.*aten.remainder"      # a regular expression, searched in the finding's signature
link = "https://github.com/pytorch/pytorch/issues/12345"
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from mindgap.errors import BadConfig
from mindgap.reading.files import parse_toml, read_file
from mindgap.reading.limits import TEXT_BYTES


@dataclass(frozen=True, slots=True)
class Known:
    """One finding that is known elsewhere."""

    id: str
    pattern: re.Pattern[str]
    link: str = ""

    def __str__(self) -> str:
        return f"{self.id} {self.link}".strip()


def load_known(path: Path) -> list[Known]:
    """The entries of a file; raises BadConfig with the entry that is wrong."""
    entries = parse_toml(read_file(path, TEXT_BYTES, BadConfig), path, BadConfig).get("known", [])
    if not isinstance(entries, list):
        raise BadConfig("known.toml holds no list of [[known]]", where=str(path))
    return [_entry(row, f"{path}: [[known]] {number}") for number, row in enumerate(entries, 1)]


def _entry(row: object, where: str) -> Known:
    if not isinstance(row, dict) or not all(isinstance(row.get(key), str) for key in ("id", "pattern")):
        raise BadConfig("a known finding needs an id and a pattern", where=where)
    try:
        pattern = re.compile(row["pattern"])
    except re.error as error:
        what = f"the pattern of {row['id']} is not a regular expression"
        raise BadConfig(what, where=where, cause=str(error)) from error
    return Known(row["id"], pattern, str(row.get("link", "")))


def recognise(signature: str, known: Sequence[Known]) -> Known | None:
    """The first entry whose pattern is found in a signature."""
    return next((entry for entry in known if entry.pattern.search(signature)), None)

"""The result of a benchmark."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Measurement:
    """What was measured, on what, and how it compares with a baseline of the same run."""

    name: str
    what: str
    on: str
    rows: tuple[Mapping[str, Any], ...]
    """One line of the table each; every row has the same keys."""
    conclusion: str
    versions: Mapping[str, str]

    def document(self) -> dict[str, Any]:
        return {
            "schema": "mindgap.bench/1",
            "name": self.name,
            "what": self.what,
            "on": self.on,
            "rows": [dict(row) for row in self.rows],
            "conclusion": self.conclusion,
            "versions": dict(self.versions),
        }


def median(values: Sequence[float]) -> float | str:
    """With one decimal; a dash where there is nothing."""
    return round(statistics.median(values), 1) if values else "-"

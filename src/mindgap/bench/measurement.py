"""The result of a benchmark, and what its tables are made of."""

from __future__ import annotations

import resource
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, TypeAlias, TypeVar

from mindgap.platforms.versions import versions

T = TypeVar("T")
Tell: TypeAlias = Callable[[str, str], None]
"""Told who is doing what."""
Row: TypeAlias = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Measurement:
    """What was measured, on what, and how it compares with a baseline of the same run."""

    name: str
    what: str
    on: str
    rows: Sequence[Row]
    """One line of the table each; every row has the same keys."""
    conclusion: str
    versions: Mapping[str, str] = field(default_factory=versions)

    def document(self) -> dict[str, Any]:
        return {"schema": "mindgap.bench/1", **asdict(self)}


def grouped(items: Sequence[T], group: Callable[[T], str], summary: Callable[[str, Sequence[T]], Row]) -> list[Row]:
    """A row per group in the order of their first items, then one for all."""
    groups: dict[str, list[T]] = {}
    for item in items:
        groups.setdefault(group(item), []).append(item)
    return [*(summary(name, found) for name, found in groups.items()), summary("all", items)]


def share(part: int, whole: int) -> str:
    return f"{part}/{whole}" if whole else "-"


def median(values: Sequence[float]) -> float | str:
    """With one decimal; a dash where there is nothing."""
    return round(statistics.median(values), 1) if values else "-"


def cpu_s() -> float:
    """CPU time so far of this process and of its workers that have ended: comparable on a machine that others use."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(item.ru_utime + item.ru_stime for item in used)

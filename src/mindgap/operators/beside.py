"""What platforms declare beside what ran there: one row per platform and dtype, over the operators that eager runs."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from mindgap.operators.declared import Declaration
from mindgap.operators.observed import Grade, Observed


@dataclass(frozen=True, slots=True)
class Beside:
    """One platform in one dtype, declared and observed over the same operators."""

    platform: str
    mode: str
    dtype: str
    operators: int
    """Those that eager ran, that this platform was asked for, and that torch's list holds."""
    declared: int | None
    """Of those, operators that it declares to have; None where nothing, or not all, is declared of it."""
    running: int
    """Of those, operators of which some call gave a result."""
    needed: int
    """All of them, counted once for each real model that needs them; the next two likewise."""
    needed_declared: int | None
    needed_running: int
    missing_but_ran: tuple[str, ...] = ()
    """Operators that it declares not to have and of which some call ran all the same."""
    declared_but_nothing_ran: tuple[str, ...] = ()

    @property
    def declared_fewer_percent(self) -> float | None:
        """How many percent fewer operators it declares than eager runs."""
        return None if self.declared is None else _fewer(self.declared, self.operators)

    @property
    def running_fewer_percent(self) -> float:
        """How many percent fewer ran than on eager."""
        return _fewer(self.running, self.operators)

    @property
    def declared_weighted_percent(self) -> float | None:
        return None if self.needed_declared is None else 100 - _fewer(self.needed_declared, self.needed)

    @property
    def running_weighted_percent(self) -> float:
        return 100 - _fewer(self.needed_running, self.needed)


def _fewer(part: int, whole: int) -> float:
    return 100 * (1 - part / whole) if whole else 0.0


def beside(
    declared: Sequence[Declaration], found: Observed, weights: Mapping[str, int], listed: Collection[str]
) -> list[Beside]:
    """Each platform that ran, in each dtype in which something did; `listed` are the operators of torch's list."""
    by_name = {item.platform: item for item in declared if item.is_complete}
    rows = [
        _row(platform, dtype, by_name.get(platform), found, weights, listed)
        for platform in found.platforms
        for dtype in found.sweep.dtypes
    ]
    return [row for row in rows if row.operators]


def _row(
    platform: str,
    dtype: str,
    declared: Declaration | None,
    found: Observed,
    weights: Mapping[str, int],
    listed: Collection[str],
) -> Beside:
    cells = {
        op: found.cell(platform, op, dtype)
        for op in found.sweep.operators
        if (op, dtype) in found.exercised and op in listed
    }
    ran = {op: cell.ran for op, cell in cells.items() if cell.grade is not Grade.NOT_EXERCISED}
    has = {op: declared.has(op).runs for op in ran} if declared is not None else {}
    # Of an operator that it has for some calls only, either may be expected.
    lacks = {op for op in ran if declared is not None and declared.has(op).is_missing}
    return Beside(
        platform,
        found.modes.get(platform, ""),
        dtype,
        len(ran),
        sum(has.values()) if declared is not None else None,
        sum(ran.values()),
        sum(weights.get(op, 0) for op in ran),
        sum(weights.get(op, 0) for op in ran if has[op]) if declared is not None else None,
        sum(weights.get(op, 0) for op, runs in ran.items() if runs),
        tuple(op for op, runs in ran.items() if runs and op in lacks),
        tuple(op for op, runs in ran.items() if not runs and has.get(op)),
    )

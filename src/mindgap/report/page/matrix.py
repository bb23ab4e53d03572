"""Models by platforms: the data of the heat map."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final

from mindgap.campaign.matrix import Cell, Pair
from mindgap.report.page.content import MOST_MODELS

_GRAVITY: Final = ("diverges", "unstable", "failed", "hazard", "unjudged", "rounding", "agrees")
"""The word of a cell is the gravest of its verdicts."""


def consistency(
    cells: Sequence[Cell],
    pairs: Sequence[Pair],
    known: Collection[tuple[str, str]] = (),
    ran: Mapping[str, Mapping[str, tuple[int, int]]] = MappingProxyType({}),
) -> dict[str, Any]:
    """Rows of models and columns of platforms, for whole variants and for fragments.

    A cell is `[word, worst error over rounding, counts by verdict, is it known]`; `pairs` hold, for every two
    platforms, how their outputs compare model by model. `ran` says, by kind and platform, how many programs ran of
    those that are due: a platform that is missing is a column all the same, and a column that is not complete says so.
    """
    missing = [name for names in ran.values() for name in names]
    platforms = sorted({*(cell.platform for cell in cells), *missing})
    kinds = [kind for kind in ("variant", "fragment") if any(cell.kind == kind for cell in cells)]
    views = {kind: _view([cell for cell in cells if cell.kind == kind], platforms, known) for kind in kinds}
    beside: dict[str, dict[str, dict[str, dict[str, int]]]] = {kind: {} for kind in kinds}
    for pair in pairs:
        shown = {row[0] for row in views.get(pair.kind, {"rows": []})["rows"]}
        if pair.model in shown:
            counts = beside[pair.kind].setdefault(f"{pair.first}\n{pair.second}", {}).setdefault(pair.model, {})
            counts[pair.how] = counts.get(pair.how, 0) + pair.count
    counted = {kind: {name: list(count) for name, count in ran.get(kind, {}).items()} for kind in kinds}
    return {"platforms": platforms, "kinds": kinds, "views": views, "pairs": beside, "ran": counted}


def _view(cells: Sequence[Cell], platforms: Sequence[str], known: Collection[tuple[str, str]]) -> dict[str, Any]:
    rows: dict[str, dict[str, Cell]] = {}
    names = {cell.base: cell.model for cell in cells}
    for cell in cells:
        rows.setdefault(cell.base, {})[cell.platform] = cell
    ranked = sorted(rows, key=lambda base: (-max(map(_weight, rows[base].values())), names[base]))
    return {
        "rows": [
            [names[base], [_shown(rows[base].get(name), (base, name) in known) for name in platforms]]
            for base in ranked[:MOST_MODELS]
        ],
        "total": len(rows),
    }


def _weight(cell: Cell) -> float:
    """The share that differs decides the order, then the size of the error."""
    total = sum(cell.counts.values()) or 1
    differ = cell.counts.get("diverges", 0) + cell.counts.get("unstable", 0)
    worst = min(cell.worst, 1e30) if cell.worst is not None and not math.isnan(cell.worst) else 0.0
    return 1000 * bool(differ) + 100 * differ / total + math.log10(1 + worst) + cell.counts.get("failed", 0) / total


def _shown(cell: Cell | None, is_known: bool) -> list[Any] | None:
    if cell is None:
        return None
    word = next((word for word in _GRAVITY if cell.counts.get(word)), "unjudged")
    return [word, cell.worst, cell.counts, int(is_known)]

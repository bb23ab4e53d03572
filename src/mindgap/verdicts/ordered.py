"""Outputs that hold indices: compared through the values that they select, so that ties are ties."""

from __future__ import annotations

import hashlib
import math

import torch

from mindgap.records.verdict import Blame, Conclusion, Kind
from mindgap.verdicts.comparison import Comparison
from mindgap.verdicts.elements import CHUNK, THRESHOLD
from mindgap.verdicts.survey import Indices, Surveyed

LARGEST = 8 * CHUNK
"""Index outputs beyond this many elements are compared as plain integers: gathering needs copies."""

TIE_ORDER = "tie-order"
"""The rule that is not asked here which elements it reaches: ties are known by their values."""


def compare_indices(
    name: str, eager: torch.Tensor, candidate: torch.Tensor, known: Surveyed, values: Surveyed | None
) -> Comparison | None:
    """What an index output shows, or None when its values are not known."""
    indices = known.indices
    differ = eager != candidate
    total = eager.numel()
    if not bool(differ.any()):
        return Comparison(name, Conclusion.AGREES, total=total)
    if values is None or values.reference is None or values.distrust or indices is None or known.reference is None:
        return None
    if total > LARGEST or values.reference.is_complex() or known.reference.shape != eager.shape:
        return None
    rows = _rows(values.reference, indices)
    spread = None if values.spread is None else _rows(values.spread, indices)
    chosen = [_index_rows(t, indices, len(rows)) for t in (eager, candidate, known.reference)]
    if any(index is None for index in chosen):
        return None
    own, other, right = (index for index in chosen if index is not None)
    bad_eager, tie_eager = _misplaced(own, right, rows, spread, indices, values.dtype)
    bad, ties = _misplaced(other, right, rows, spread, indices, values.dtype)
    flat = own != other
    for rule, mask in known.hazards.items():
        reached = _index_rows(mask, indices, len(rows)) if rule != TIE_ORDER else None
        flat = flat & (reached == 0) if reached is not None else flat
        if not bool(flat.any()):
            return Comparison(
                name, Conclusion.HAZARD, Kind.ORDER, rule=rule, differing=int((own != other).sum()), total=total
            )
    wrong, eager_wrong = bad & flat, bad_eager & flat
    differing = int(flat.sum())
    count = int((wrong | eager_wrong).sum())
    if count:
        first = int((wrong | eager_wrong).reshape(-1).nonzero()[0])
        return _disorder(name, eager, candidate, first, wrong, eager_wrong, count, differing, other)
    same_value = (ties & tie_eager)[flat]
    if bool(same_value.all()):
        return Comparison(name, Conclusion.HAZARD, Kind.ORDER, rule=TIE_ORDER, differing=differing, total=total)
    why = "the indices differ only among values that rounding cannot tell apart"
    return Comparison(name, Conclusion.ROUNDING, Kind.ORDER, ratio=1.0, differing=differing, total=total, why=why)


def _disorder(
    name: str,
    eager: torch.Tensor,
    candidate: torch.Tensor,
    first: int,
    wrong: torch.Tensor,
    eager_wrong: torch.Tensor,
    count: int,
    differing: int,
    rows: torch.Tensor,
) -> Comparison:
    blames = {(True, False): Blame.CANDIDATE, (False, True): Blame.EAGER, (True, True): Blame.BOTH}
    digest = hashlib.blake2b(rows[wrong | eager_wrong].numpy().tobytes(), digest_size=6)
    return Comparison(
        name,
        Conclusion.DIVERGES,
        Kind.ORDER,
        blames[bool(wrong.any()), bool(eager_wrong.any())],
        candidate_value=str(candidate.reshape(-1)[first].item()) if candidate.dim() == 1 else "",
        eager_value=str(eager.reshape(-1)[first].item()) if eager.dim() == 1 else "",
        worst=(first,) if eager.dim() == 1 else None,
        wrong=count,
        differing=differing,
        total=eager.numel(),
        fingerprint=f"{name} {digest.hexdigest()}",
    )


def _misplaced(
    index: torch.Tensor,
    right: torch.Tensor,
    rows: torch.Tensor,
    spread: torch.Tensor | None,
    indices: Indices,
    dtype: str,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Where the selected value is not the right one, and where it is exactly the right one."""
    length = rows.shape[-1]
    valid = (index >= 0) & (index < length)
    safe = index.clamp(0, max(0, length - 1))
    selected, wanted = rows.gather(-1, safe), rows.gather(-1, right)
    exact = (selected == wanted) | (selected.isnan() & wanted.isnan())
    eps = torch.finfo(getattr(torch, dtype)).eps if getattr(torch, dtype).is_floating_point else 0.0
    unit = wanted.abs() * eps
    if spread is not None:
        unit = torch.maximum(unit, spread.gather(-1, safe) + spread.gather(-1, right))
    near = exact | ((selected - wanted).abs() <= THRESHOLD * unit)
    bad = ~(valid & near)
    if indices.distinct and index.shape[-1] > 1:
        ordered = safe.sort(-1).values
        repeated = (ordered[..., 1:] == ordered[..., :-1]).any(-1, keepdim=True)
        bad = bad | repeated
    return bad, exact & valid


def _rows(values: torch.Tensor, indices: Indices) -> torch.Tensor:
    """The values with the dimension that indices count along as the last one of two."""
    wide = values.to(torch.float64)
    if indices.planes:
        return wide.reshape(-1, math.prod(wide.shape[-indices.planes :]))
    if indices.axis is None or not wide.dim():
        return wide.reshape(1, -1)
    moved = wide.movedim(indices.axis, -1)
    return moved.reshape(-1, moved.shape[-1])


def _index_rows(index: torch.Tensor, indices: Indices, rows: int) -> torch.Tensor | None:
    """The indices as rows that fit those of the values, or None when they do not."""
    whole = index.to(torch.int64)
    if rows and whole.numel() % rows == 0 and (indices.planes or indices.axis is None or not whole.dim()):
        return whole.reshape(rows, -1)
    if indices.axis is None or not rows or whole.numel() % rows:
        return None
    if whole.numel() == rows:
        return whole.reshape(rows, 1)
    moved = whole.movedim(indices.axis, -1)
    return moved.reshape(rows, -1)

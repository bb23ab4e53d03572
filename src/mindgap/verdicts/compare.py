"""Comparing one output: structure, dtype and shape first, then every element in its own channel."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Final

import numpy as np
import torch

from mindgap.records.tensors import DTYPE_NAMES
from mindgap.records.verdict import Blame, Conclusion, Kind, WrongElement
from mindgap.verdicts.comparison import Comparison
from mindgap.verdicts.elements import (
    CHUNK,
    ILL,
    THRESHOLD,
    Expected,
    apart,
    deviation,
    expected_chunks,
    largest_deviation,
    signed,
)
from mindgap.verdicts.floor import real_view
from mindgap.verdicts.ordered import compare_indices
from mindgap.verdicts.survey import RESHAPED, Survey, Surveyed
from mindgap.verdicts.unspecified.chance import RANDOM_STREAM
from mindgap.verdicts.unspecified.precision import INTERMEDIATE_PRECISION, SIGNED_ZERO


def compare_output(name: str, eager: torch.Tensor, candidate: torch.Tensor, survey: Survey | None) -> Comparison:
    """What one output of a candidate shows next to eager's."""
    known = survey.output(name) if survey else None
    mismatch = _metadata(name, eager, candidate, known)
    if mismatch is not None:
        return mismatch
    other_shape = known is not None and known.reference is not None and known.reference.shape != eager.shape
    if known is not None and (known.dtype != DTYPE_NAMES[eager.dtype] or other_shape):
        known = None  # eager ran another instance of the program than the survey did
    if known is not None and survey is not None and known.indices is not None and not known.distrust:
        found = compare_indices(name, eager, candidate, known, survey.value(known.indices.values))
        if found is not None:
            return found
    found = _Tally(name, eager, candidate, known).compare()
    if found.conclusion is Conclusion.UNJUDGED and known is not None and known.careful is not None:
        # The problem is well-conditioned and only a way to compute it is not: eager shows what can be achieved.
        careful = replace(known, spread=known.careful, flips=None, condition=0.0)
        achieved = largest_deviation(eager, careful)
        against = _Tally(name, eager, candidate, careful).compare()
        wrong = against.conclusion is Conclusion.DIVERGES and against.blame is Blame.CANDIDATE
        if wrong and achieved <= THRESHOLD < (against.ratio or 0.0) / max(1.0, achieved):
            return replace(against, why="the problem is well-conditioned, only one way to compute it is not")
    return found


def _metadata(name: str, eager: torch.Tensor, candidate: torch.Tensor, known: Surveyed | None) -> Comparison | None:
    """A difference of dtype or shape: nothing else is worth comparing then."""
    if eager.dtype == candidate.dtype and eager.shape == candidate.shape:
        return None
    kind = Kind.DTYPE if eager.dtype != candidate.dtype else Kind.SHAPE
    was, got = _meta(eager), _meta(candidate)
    if known is not None and known.distrust == RESHAPED and kind is Kind.SHAPE:
        return Comparison(name, Conclusion.UNJUDGED, kind, why=RESHAPED, total=eager.numel())
    may_be = known is not None and (known.likely is None or known.likely.allows(candidate.shape))
    if known is not None and known.reshaped_by and kind is Kind.SHAPE and may_be:
        why = f"{got} where eager gives {was}"
        return Comparison(name, Conclusion.HAZARD, kind, rule=known.reshaped_by, why=why, total=eager.numel())
    return Comparison(
        name,
        Conclusion.DIVERGES,
        kind,
        Blame.CANDIDATE,
        candidate_value=got,
        eager_value=was,
        total=eager.numel(),
        fingerprint=f"{name} {got}",
    )


def _meta(tensor: torch.Tensor) -> str:
    return f"{DTYPE_NAMES.get(tensor.dtype, str(tensor.dtype))}{list(tensor.shape)}"


@dataclass
class _Worst:
    """The element with the largest error so far."""

    ratio: float = -1.0
    eager_ratio: float = 0.0
    index: int = 0
    values: tuple[object, object, object] = (None, None, None)
    """Of the candidate, eager and the reference."""

    def see(self, ratios: torch.Tensor, others: torch.Tensor, expected: Expected, batch: _Batch) -> None:
        if not len(ratios):
            return
        best = int(torch.argmax(torch.maximum(ratios, others)))
        top = max(float(ratios[best]), float(others[best]))
        if top <= self.ratio:
            return
        right = expected.reference[best].item() if expected.reference is not None else None
        self.ratio, self.index = top, int(batch.indices[best])
        self.values = (batch.candidate[best].item(), batch.eager[best].item(), right)
        self.eager_ratio = float(others[best])


MOST_ELEMENTS: Final = 8
"""Wrong elements that are shown: enough to see a pattern."""


@dataclass(frozen=True)
class _Batch:
    """Elements of one chunk that are not the same bits."""

    indices: torch.Tensor
    eager: torch.Tensor
    candidate: torch.Tensor

    def at(self, where: torch.Tensor) -> _Batch:
        return _Batch(self.indices[where], self.eager[where], self.candidate[where])


@dataclass
class _Tally:
    """One output under comparison, chunk by chunk."""

    name: str
    eager: torch.Tensor
    candidate: torch.Tensor
    known: Surveyed | None
    differing: int = 0
    explained: dict[str, int] = field(default_factory=dict)
    """By rule: elements whose difference it explains."""
    rounded: int = 0
    candidate_wrong: int = 0
    eager_wrong: int = 0
    both_wrong: int = 0
    nearer: int = 0
    """Of those where only the candidate is wrong: it is nearer to float64 than eager, which is right only if every
    operator rounds."""
    apart: int = 0
    """Elements beyond rounding where no reference says who is wrong."""
    worst_bad: _Worst = field(default_factory=_Worst)
    worst_rounded: _Worst = field(default_factory=_Worst)
    largest: float = 0.0
    """Of what makes the others rounding: the distance from float64, or from eager where they are far from float64."""
    largest_eager: float = 0.0
    far: float | None = None
    """The distance from float64 where only the distance from eager makes it rounding."""
    bad: float = 0.0
    bad_eager: float = 0.0
    """Of the elements beyond rounding."""
    elements: list[tuple[float, int, tuple[object, object, object]]] = field(default_factory=list)
    """The worst of them: error, index, and the values of the candidate, eager and the reference."""
    nonfinite: bool = False
    prints: hashlib.blake2b = field(default_factory=lambda: hashlib.blake2b(digest_size=6))

    def compare(self) -> Comparison:
        for batch, expected, masks in self._batches():
            self.differing += len(batch.indices)
            batch, expected = self._take_explained(batch, expected, masks)
            if len(batch.indices):
                self._judge(batch, expected)
        return self._conclude()

    def _batches(self) -> Iterator[tuple[_Batch, Expected, dict[str, torch.Tensor]]]:
        eager, candidate = _flat(self.eager), _flat(self.candidate)
        known = self.known
        pieces = expected_chunks(known, eager.dtype) if known is not None else iter(())
        masks = {}
        if known is not None:
            pairs = 2 if self.eager.is_complex() else 1
            masks = {rule: mask.reshape(-1) for rule, mask in known.hazards.items()}
        for low in range(0, len(eager), CHUNK):
            first, second = eager[low : low + CHUNK], candidate[low : low + CHUNK]
            expected = next(pieces, None) or Expected(eager.dtype, None, None)
            indices = _different(first, second).nonzero().reshape(-1)
            if not len(indices):
                continue
            if first.is_floating_point() and first.element_size() == 1:
                first, second = first.to(torch.float32), second.to(torch.float32)  # float8 has no arithmetic
            batch = _Batch(indices + low, first[indices], second[indices])
            here = {rule: mask[(indices + low) // pairs] for rule, mask in masks.items()}
            yield batch, expected.at(indices), here

    def _take_explained(
        self, batch: _Batch, expected: Expected, masks: dict[str, torch.Tensor]
    ) -> tuple[_Batch, Expected]:
        """Set aside what a rule of unspecified behaviour explains."""
        left = torch.ones(len(batch.indices), dtype=torch.bool)
        if batch.eager.is_floating_point():
            masks = {**masks, SIGNED_ZERO: batch.eager == batch.candidate}  # equal, and yet not the same bits
        if RANDOM_STREAM in masks:  # the same number within rounding is the same draw
            drawn = masks[RANDOM_STREAM] & (apart(batch.candidate, batch.eager, expected) > THRESHOLD)
            masks = {**masks, RANDOM_STREAM: drawn}
        for rule, mask in masks.items():
            count = int((mask & left).sum())
            if count:
                self.explained[rule] = self.explained.get(rule, 0) + count
                left &= ~mask
        return (batch, expected) if bool(left.all()) else (batch.at(left), expected.at(left))

    def _judge(self, batch: _Batch, expected: Expected) -> None:
        between = apart(batch.candidate, batch.eager, expected)
        close = between <= THRESHOLD
        if expected.reference is None:
            bad = ~close
            self.apart += int(bad.sum())
            self._see_bad(batch, expected, bad, between, between)
            self.largest = max(self.largest, _top(between[close]))
            self.worst_rounded.see(between[close], between[close], expected.at(close), batch.at(close))
            return
        errors, eager_errors = deviation(batch.candidate, expected), deviation(batch.eager, expected)
        wrong, eager_wrong = (errors > THRESHOLD) & ~close, (eager_errors > THRESHOLD) & ~close
        self.candidate_wrong += int((wrong & ~eager_wrong).sum())
        self.eager_wrong += int((eager_wrong & ~wrong).sum())
        self.both_wrong += int((wrong & eager_wrong).sum())
        self.nearer += _count_nearer(batch, expected, wrong & ~eager_wrong)
        # Both right and yet far apart: one kept intermediate values wide, the other rounded them.
        self.rounded += int((~close & ~wrong & ~eager_wrong).sum())
        bad = wrong | eager_wrong
        self._see_bad(batch, expected, bad, errors, eager_errors)
        rest = ~bad
        far = rest & (torch.maximum(errors, eager_errors) > THRESHOLD)  # and so near eager
        if bool(far.any()):
            self.far = max(self.far or 0.0, _top(errors[far]), _top(eager_errors[far]))
        deciding = torch.where(far, between, errors)
        self.largest = max(self.largest, _top(deciding[rest]))
        self.largest_eager = max(self.largest_eager, _top(torch.where(far, between, eager_errors)[rest]))
        self.worst_rounded.see(deciding[rest], deciding[rest], expected.at(rest), batch.at(rest))

    def _see_bad(
        self, batch: _Batch, expected: Expected, bad: torch.Tensor, errors: torch.Tensor, others: torch.Tensor
    ) -> None:
        if not bool(bad.any()):
            return
        chosen = batch.at(bad)
        self.bad = max(self.bad, _top(errors[bad]))
        self.bad_eager = max(self.bad_eager, _top(others[bad]))
        self.worst_bad.see(errors[bad], others[bad], expected.at(bad), chosen)
        self._keep_worst(chosen, torch.maximum(errors, others)[bad], expected.at(bad).reference)
        if chosen.candidate.is_floating_point():
            finite = chosen.candidate.isfinite() & chosen.eager.isfinite()
            self.nonfinite = self.nonfinite or not bool(finite.all())
            coarse = chosen.candidate.to(torch.float32).to(torch.bfloat16).view(torch.int16)
            coarse = torch.where(chosen.candidate.isnan(), torch.full_like(coarse, 32767), coarse)
        else:
            coarse = chosen.candidate
        self.prints.update(chosen.indices.numpy().tobytes())
        self.prints.update(coarse.contiguous().view(torch.uint8).numpy().tobytes())

    def _keep_worst(self, batch: _Batch, ratios: torch.Tensor, right: torch.Tensor | None) -> None:
        for at in ratios.sort(descending=True, stable=True).indices[:MOST_ELEMENTS].tolist():
            reference = right[at].item() if right is not None else None
            values = (batch.candidate[at].item(), batch.eager[at].item(), reference)
            self.elements.append((float(ratios[at]), int(batch.indices[at]), values))
        self.elements.sort(key=lambda element: -element[0])  # stable: of equals the first
        del self.elements[MOST_ELEMENTS:]

    @property
    def _wrong(self) -> int:
        return self.candidate_wrong + self.eager_wrong + self.both_wrong + self.apart

    @property
    def _trusted(self) -> bool:
        """Whether there is a reference that holds."""
        return self.known is not None and self.known.reference is not None and not self.known.distrust

    def _conclude(self) -> Comparison:
        known, wrong = self.known, self._wrong
        if not self.differing:
            return Comparison(self.name, Conclusion.AGREES, total=self.eager.numel())
        if wrong and known is None:
            return self._filled(Conclusion.UNJUDGED, why="there is no reference to judge by")
        unexplained = self.differing > sum(self.explained.values())
        if unexplained and known is not None and known.condition > ILL and self._may_be_rounding(known):
            why = f"it is ill-conditioned: rounding alone moves it by {100 * min(known.condition, 10):.0f}%"
            why += f", most of it in {known.amplifier}" if known.amplifier else ""
            return self._filled(Conclusion.UNJUDGED, why=why)
        if wrong and self._trusted:
            blame = self._blame()
            why = _NEARER if blame is Blame.UNCLEAR else ""
            return self._filled(Conclusion.DIVERGES, blame=blame, why=why)
        if wrong and known is not None and known.spread is None:
            return self._filled(Conclusion.UNJUDGED, why=known.distrust)
        if wrong and known is not None:
            return self._filled(Conclusion.DIVERGES, blame=Blame.UNCLEAR, why=known.distrust)
        if RANDOM_STREAM in self.explained and known is not None and known.likely is not None:
            contradiction = known.likely.contradiction(self.candidate)
            if contradiction:
                found = self._filled(Conclusion.DIVERGES, Blame.CANDIDATE, RANDOM_STREAM, contradiction)
                return replace(found, fingerprint=f"{self.name} {contradiction}")
        if self.explained:
            rule = max(self.explained, key=lambda name: self.explained[name])
            return self._filled(Conclusion.HAZARD, rule=rule)
        if self.rounded:
            why = "float64 and rounding after each operator give different answers, and both are legal"
            return self._filled(Conclusion.HAZARD, rule=INTERMEDIATE_PRECISION, why=why)
        return self._filled(Conclusion.ROUNDING)

    def _may_be_rounding(self, known: Surveyed) -> bool:
        """Whether an ill-conditioned output differs by a part that matters, and in a way that rounding may bring about.

        NaN or Inf where no noise run made one is not rounding, as long as noise leaves something of the output.
        """
        if self.nonfinite:
            return known.flips is not None or known.condition >= 1
        return self._moved_far()

    def _moved_far(self) -> bool:
        """Whether candidate and eager differ, in norm, by a part of the output that matters."""
        apart = size = 0.0
        for low in range(0, len(_flat(self.eager)), CHUNK):
            first, second = (_flat(t)[low : low + CHUNK].to(torch.float64) for t in (self.eager, self.candidate))
            finite = first.isfinite() & second.isfinite()
            apart += float((first - second)[finite].square().sum())
            size += float(first[finite].square().sum())
        return apart > ILL**2 * size

    def _blame(self) -> Blame:
        if self.both_wrong or (self.candidate_wrong and self.eager_wrong):
            return Blame.BOTH
        if self.candidate_wrong:
            return Blame.UNCLEAR if self.nearer == self.candidate_wrong else Blame.CANDIDATE
        return Blame.EAGER

    def _filled(
        self,
        conclusion: Conclusion,
        blame: Blame | None = None,
        rule: str | None = None,
        why: str = "",
    ) -> Comparison:
        wrong = self._wrong
        worst = self.worst_bad if wrong else self.worst_rounded
        has_index = worst.ratio >= 0
        shown = _shown(worst.values, self.eager.dtype) if has_index else ("", "", "")
        return Comparison(
            output=self.name,
            conclusion=conclusion,
            kind=Kind.SIGNED_ZERO if rule == SIGNED_ZERO else self._kind(wrong),
            blame=blame,
            ratio=(self.bad if wrong else self.largest) if self.known is not None else None,
            eager_ratio=(self.bad_eager if wrong else self.largest_eager) if self._trusted else None,
            far=self.far if not wrong else None,
            worst=self._index(worst.index) if has_index else None,
            candidate_value=shown[0],
            eager_value=shown[1],
            right_value=shown[2],
            wrong=wrong,
            explained=self.explained.get(rule, 0) if rule else 0,
            differing=self.differing,
            total=self.eager.numel(),
            rule=rule,
            why=why,
            fingerprint=f"{self.name} {self.prints.hexdigest()}" if wrong else "",
            elements=tuple(self._elements()),
        )

    def _elements(self) -> Iterator[WrongElement]:
        for ratio, flat, values in self.elements:
            place = ", ".join(map(str, self._index(flat)))
            yield WrongElement(
                f"{self.name}[{place}]" if place else self.name, *_shown(values, self.eager.dtype), ratio
            )

    def _kind(self, wrong: int) -> Kind:
        if not real_view(self.eager).is_floating_point():
            return Kind.INTEGER
        return Kind.NONFINITE if wrong and self.nonfinite else Kind.VALUE

    def _index(self, flat: int) -> tuple[int, ...]:
        flat //= 2 if self.eager.is_complex() else 1
        return tuple(int(i) for i in np.unravel_index(flat, tuple(self.eager.shape)))


_NEARER: Final = "eager is right only if every operator rounds its result, and it is nearer to float64 than eager"


def _count_nearer(batch: _Batch, expected: Expected, wrong: torch.Tensor) -> int:
    """How many of these are nearer to float64 on the candidate than on eager, which is beyond its own bound."""
    if expected.stepwise is None or not bool(wrong.any()):
        return 0
    chosen, wide = batch.at(wrong), replace(expected.at(wrong), stepwise=None)
    own = deviation(chosen.eager, wide)
    return int(((own > THRESHOLD) & (deviation(chosen.candidate, wide) < own)).sum())


def _flat(tensor: torch.Tensor) -> torch.Tensor:
    return signed(real_view(tensor).reshape(-1))


def _different(first: torch.Tensor, second: torch.Tensor) -> torch.Tensor:
    """Where the bits differ; NaN is NaN whatever its bits."""
    if not first.is_floating_point():
        return first != second
    bits = {8: torch.int64, 4: torch.int32, 2: torch.int16, 1: torch.int8}[first.element_size()]
    differ = first.view(bits) != second.view(bits)
    if bool(differ.any()):
        if first.element_size() == 1:
            first, second = first.to(torch.float32), second.to(torch.float32)
        differ &= ~(first.isnan() & second.isnan())
    return differ


def _top(values: torch.Tensor) -> float:
    return float(values.max()) if len(values) else 0.0


_UNSIGNED: Final = {torch.uint16: 1 << 16, torch.uint32: 1 << 32, torch.uint64: 1 << 64}
"""Types that are compared as signed ones with the same bits, and how many values they have."""


def _shown(values: tuple[object, object, object], dtype: torch.dtype) -> tuple[str, str, str]:
    """The values of candidate, eager and reference, with as many digits as it takes to tell the first two apart."""
    if dtype in _UNSIGNED:
        candidate, eager, reference = (v % _UNSIGNED[dtype] if isinstance(v, int) else v for v in values)
    else:
        candidate, eager, reference = values
    digits = next((n for n in (7, 10) if _show(candidate, n) != _show(eager, n)), 17)
    return _show(candidate, digits), _show(eager, digits), _show(reference, digits)


def _show(value: object, digits: int) -> str:
    return "" if value is None else f"{value:.{digits}g}" if isinstance(value, float) else str(value)

"""How coverage grows with the number of variants, guided and blind."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from mindgap.variants.base import Base
from mindgap.variants.registry import Mutation
from mindgap.variants.synthesis import Synthesis

_POINTS: Final = (0.05, 0.1, 0.25, 0.5, 0.75, 1.0)


@dataclass(frozen=True, slots=True)
class Point:
    """What a number of variants has reached."""

    variants: int
    operators: int
    contexts: int
    pairs: int


@dataclass(frozen=True, slots=True)
class Curves:
    """Coverage of both ways, and what became of the mutations."""

    guided: tuple[Point, ...]
    blind: tuple[Point, ...]
    made: Counter[str]
    skipped: Counter[tuple[str, str]]
    """By name and reason, of the guided run."""


def growth(
    bases: Sequence[Base], seed: int, count: int, tell: Callable[[str], None], plugins: Sequence[Mutation] = ()
) -> Curves:
    """Make `count` variants both ways and record how the coverage grows."""
    made: Counter[str] = Counter()
    guided = Synthesis(bases, seed, plugins=plugins)
    blind = Synthesis(bases, seed, guided=False, plugins=plugins)
    curves = [_curve(one, count, tell, name, made) for one, name in ((guided, "guided"), (blind, "blind"))]
    return Curves(curves[0], curves[1], made, guided.skipped)


def _curve(
    synthesis: Synthesis, count: int, tell: Callable[[str], None], name: str, made: Counter[str]
) -> tuple[Point, ...]:
    marks = sorted({max(1, round(count * share)) for share in _POINTS})
    points = []
    for number, variant in zip(range(1, count + 1), synthesis):
        if name == "guided":
            made.update(variant.provenance.mutations)
        if number in marks:
            tell(f"{number} of {count}, {name}")
            seen = synthesis.coverage
            points.append(Point(number, seen.count_operators(), len(seen.contexts), len(seen.pairs)))
    return tuple(points)

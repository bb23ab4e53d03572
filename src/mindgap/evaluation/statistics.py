"""Exact tests: are so many changed answers what rounding explains, and did the metric move?"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Final

import numpy as np

LEVEL: Final = 0.01
"""How often a platform that only rounds may be called a regression."""

COARSER: Final = 3.0
"""How many times as often as a noise run a platform that only rounds may change an answer: on 12 real models in three
precisions platforms stay within 2.4 noise floors (docs/decisions/0003), and close margins are spread evenly."""

DRAWS: Final = 1999
"""Of the permutation test for answers that count: the smallest p-value that it can give is 0.0005."""

CONFIDENCE: Final = 0.95

Stratum = tuple[float, Sequence[float]]
"""How much one sample changed on a platform, and in each noise run."""


def p_of_changes(strata: Sequence[Stratum]) -> float:
    """How likely so many changes are on a platform that only rounds; samples that never change need not be given.

    A sample that changed in t of the K noise runs and the platform together changed on the platform with odds of
    COARSER t to K + 1 - t: given t, nothing has to be estimated.
    """
    if not strata:
        return 1.0
    if all(value in (0.0, 1.0) for own, noise in strata for value in (own, *noise)):
        return _binary([(int(own), int(sum(noise)), len(noise)) for own, noise in strata])
    return _counted(strata)


def _binary(strata: Sequence[tuple[int, int, int]]) -> float:
    """Exact: a sum of independent yes-or-no draws, those of one probability together."""
    observed = sum(own for own, _, _ in strata)
    distribution = np.ones(1)
    for (changed, runs), count in Counter((own + noise, runs) for own, noise, runs in strata).items():
        odds = COARSER * changed / (runs + 1 - changed) if changed <= runs else math.inf
        share = odds / (1 + odds) if odds < math.inf else 1.0
        distribution = np.convolve(distribution, _binomial(count, share))
    return float(min(1.0, distribution[observed:].sum()))


def _counted(strata: Sequence[Stratum]) -> float:
    """By drawing: which of its runs was the platform's is arbitrary for a platform that only rounds."""
    runs = max(len(noise) for _, noise in strata)
    values = np.zeros((len(strata), runs + 1))
    for row, (own, noise) in zip(values, strata):
        row[0] = own
        row[1 : 1 + len(noise)] = np.asarray(noise) * COARSER
    observed = values[:, 0].sum()
    chance = np.random.default_rng(0)
    rows = np.arange(len(strata))
    sums = (values[rows, chance.integers(0, runs + 1, len(strata))].sum() for _ in range(DRAWS))
    # Sums of the same numbers in another order differ by rounding.
    reached = sum(bool(total >= observed * (1 - 1e-12)) for total in sums)
    return (1 + reached) / (1 + DRAWS)


def mcnemar(lost: int, won: int) -> float:
    """Two-sided exact p-value that as many answers became wrong as became right."""
    both = lost + won
    return min(1.0, 2 * at_least(max(lost, won), both, 0.5)) if both else 1.0


def difference_interval(lost: int, won: int, samples: int) -> tuple[float, float]:
    """Confidence interval of the change of a rate, from the answers that became wrong and right (Clopper-Pearson)."""
    both = lost + won
    if not both or not samples:
        return 0.0, 0.0
    least, most = proportion_interval(won, both)
    return both * (2 * least - 1) / samples, both * (2 * most - 1) / samples


def proportion_interval(count: int, total: int) -> tuple[float, float]:
    """Clopper-Pearson's interval of a rate."""
    tail = (1 - CONFIDENCE) / 2
    least = _where(lambda rate: at_least(count, total, rate) >= tail) if count else 0.0
    most = _where(lambda rate: 1 - at_least(count + 1, total, rate) <= tail) if count < total else 1.0
    return least, most


def at_least(count: int, total: int, rate: float) -> float:
    """How likely a binomial count reaches `count`."""
    if count <= 0:
        return 1.0
    return float(min(1.0, _binomial(total, rate)[count:].sum()))


def _where(holds: Callable[[float], bool]) -> float:
    """The smallest rate from which on something holds."""
    least, most = 0.0, 1.0
    for _ in range(60):
        middle = (least + most) / 2
        least, most = (least, middle) if holds(middle) else (middle, most)
    return most


def _binomial(total: int, rate: float) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    """Probabilities of 0 to `total`."""
    found = np.zeros(total + 1)
    if rate in (0.0, 1.0):
        found[int(rate) * total] = 1.0
        return found
    logs = np.concatenate([[0.0], np.cumsum(np.log(np.arange(1, total + 1)))])
    counts = np.arange(total + 1)
    choose = logs[total] - logs[counts] - logs[total - counts]
    return np.asarray(np.exp(choose + counts * math.log(rate) + (total - counts) * math.log1p(-rate)))

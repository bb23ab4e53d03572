"""The exact tests against what can be counted by hand, and their rate of false calls."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from mindgap.evaluation.statistics import (
    COARSER,
    LEVEL,
    at_least,
    difference_interval,
    mcnemar,
    p_of_changes,
    proportion_interval,
)


def test_nothing_that_changed_is_certain() -> None:
    assert p_of_changes([]) == 1.0
    assert mcnemar(0, 0) == 1.0
    assert difference_interval(0, 0, 100) == (0.0, 0.0)


@pytest.mark.parametrize("runs", [1, 4, 8])
def test_one_change_that_noise_never_made_proves_nothing(runs: int) -> None:
    p = p_of_changes([(1.0, [0.0] * runs)])
    assert p == pytest.approx(COARSER / (COARSER + runs))
    assert p > LEVEL


def test_the_distribution_is_that_of_all_ways_to_choose() -> None:
    strata = [(1.0, [0.0, 1.0]), (1.0, [0.0, 0.0]), (0.0, [1.0, 0.0])]
    shares = []
    for own, noise in strata:
        t = own + sum(noise)
        shares.append(COARSER * t / (COARSER * t + len(noise) + 1 - t))
    expected = 0.0
    for choice in itertools.product([0, 1], repeat=3):
        if sum(choice) >= 2:
            expected += math.prod(s if c else 1 - s for s, c in zip(shares, choice))
    assert p_of_changes(strata) == pytest.approx(expected)


def test_a_sample_that_always_changes_says_nothing() -> None:
    assert p_of_changes([(1.0, [1.0] * 4)] * 50) == 1.0


def test_a_platform_that_only_rounds_is_seldom_called_a_regression() -> None:
    """Also where it rounds as coarsely as is allowed: each sample has its own odds."""
    chance = np.random.default_rng(7)
    false = 0
    for _ in range(1000):
        rates = chance.uniform(0.0, 0.2, 60)
        odds = COARSER * rates / (1 - rates)
        own = chance.random(60) < odds / (1 + odds)
        noise = chance.random((60, 8)) < rates[:, None]
        strata = [(float(o), n.astype(float).tolist()) for o, n in zip(own, noise) if o or n.any()]
        false += p_of_changes(strata) < LEVEL
    assert false <= 1000 * LEVEL + 3 * math.sqrt(1000 * LEVEL)


def test_many_changes_where_noise_makes_few_are_found() -> None:
    strata = [(1.0, [0.0] * 8)] * 40 + [(1.0, [1.0] + [0.0] * 7)] * 1 + [(0.0, [1.0] + [0.0] * 7)] * 15
    assert p_of_changes(strata) < 1e-6


def test_answers_that_count_are_permuted() -> None:
    jitter = [(3.0, [1.0, 4.0, 2.0, 3.0])] * 30
    regression = [(40.0, [1.0, 4.0, 2.0, 3.0])] * 30
    assert p_of_changes(jitter) > 0.5
    assert p_of_changes(regression) < LEVEL
    assert p_of_changes(regression) == p_of_changes(regression)  # drawn from a fixed seed


def test_mcnemar_is_the_sign_test() -> None:
    assert mcnemar(5, 0) == pytest.approx(2 / 32)
    assert mcnemar(3, 3) == 1.0
    assert at_least(2, 3, 0.5) == pytest.approx(0.5)


def test_clopper_pearson_gives_the_published_interval() -> None:
    """4 of 10: 0.1216 to 0.7376 (Brown, Cai and DasGupta 2001 use the same definition)."""
    least, most = proportion_interval(4, 10)
    assert least == pytest.approx(0.1216, abs=1e-4)
    assert most == pytest.approx(0.7376, abs=1e-4)
    assert proportion_interval(0, 10)[0] == 0.0
    assert proportion_interval(10, 10)[1] == 1.0


def test_the_interval_of_a_difference_covers_what_was_seen() -> None:
    least, most = difference_interval(30, 2, 1000)
    assert least < (2 - 30) / 1000 < most < 0

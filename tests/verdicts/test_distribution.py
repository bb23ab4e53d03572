"""Chance alone contradicts nothing; another distribution does."""

from __future__ import annotations

import pytest
import torch

from mindgap.verdicts.distribution import SEEDS, Likely

DISTRIBUTIONS = {
    "uniform": lambda g, n: torch.rand(n, generator=g),
    "normal": lambda g, n: torch.randn(n, generator=g),
    "heavy tails": lambda g, n: torch.empty(n).cauchy_(generator=g),
    "dropout": lambda g, n: (torch.rand(n, generator=g) > 0.3).float() * 1.7,
    "whole numbers": lambda g, n: torch.randint(0, 5, (n,), generator=g),
    "few ones": lambda g, n: (torch.rand(n, generator=g) > 0.999).float(),
}


def generator(seed):
    return torch.Generator().manual_seed(seed)


@pytest.mark.parametrize("count", [1, 5, 40, 1000])
@pytest.mark.parametrize("name", DISTRIBUTIONS)
def test_other_seeds_never_contradict(name, count):
    draw = DISTRIBUTIONS[name]
    for trial in range(60):
        first = 1000 * trial
        likely = Likely.of([draw(generator(first + k), count) for k in range(SEEDS)])
        assert likely.contradiction(draw(generator(first + SEEDS), count)) == ""


WRONG = {
    "no zeros": ("dropout", lambda t: torch.full_like(t, 1.7)),
    "not scaled": ("dropout", lambda t: t / 1.7),
    "beyond the bound": ("uniform", lambda t: t * 2),
    "shifted": ("normal", lambda t: t + 3),
    "NaN": ("normal", lambda t: t * float("nan")),
    "constant": ("uniform", torch.zeros_like),
    "another range": ("whole numbers", lambda t: t + 5),
}


@pytest.mark.parametrize("name", WRONG)
def test_another_distribution_contradicts(name):
    distribution, change = WRONG[name]
    draw = DISTRIBUTIONS[distribution]
    likely = Likely.of([draw(generator(k), 1000) for k in range(SEEDS)])
    assert "on eager" in likely.contradiction(change(draw(generator(99), 1000)))


def test_chance_changes_only_the_sizes_that_it_decides():
    """Rows are chosen by chance, columns are not."""
    likely = Likely.of([torch.ones(5 + k % 3, 8) for k in range(SEEDS)])
    assert likely.allows((3, 8))
    assert not likely.allows((5, 7)) and not likely.allows((5,)) and not likely.allows((5, 8, 1))

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from mindgap.program import generator

SEEDS = st.integers(0, 2**64 - 1)
NAMES = st.text(max_size=20)


def test_known_numbers_never_change() -> None:
    """The documented algorithm, on plain Python integers."""
    import hashlib

    mask = 2**64 - 1
    key = int.from_bytes(hashlib.blake2b(bytes(8) + b"x", digest_size=8).digest(), "little")

    def word(index: int) -> int:
        z = (key + (index + 1) * 0x9E3779B97F4A7C15) & mask
        z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & mask
        z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & mask
        return z ^ (z >> 31)

    assert generator.words(0, "x", 5).tolist() == [word(i) for i in range(5)]
    assert generator.words(0, "x", 3).tolist()[:2] == [8386152185201653608, 14588597619522502163]
    expected = [np.float32((2 * (word(i) >> 41) + 1 - 2**23) * 2.0**-23) for i in range(5)]
    assert generator.uniform(0, "x", 5, -1, 1).tolist() == expected


@given(SEEDS, NAMES, st.integers(0, 200), st.integers(0, 200))
def test_an_element_depends_on_its_position_only(seed: int, name: str, start: int, count: int) -> None:
    whole = generator.words(seed, name, start + count)
    assert np.array_equal(whole[start:], generator.words(seed, name, count, start))


def test_chunks_do_not_show() -> None:
    count = generator._CHUNK + 17
    long = generator.uniform(3, "w", count, 0.5, 1.5)
    assert np.array_equal(long[:100], generator.uniform(3, "w", 100, 0.5, 1.5))
    assert np.array_equal(generator.words(3, "w", count)[-17:], generator.words(3, "w", 17, count - 17))


@given(SEEDS, NAMES, st.floats(-10, 10), st.floats(0.01, 10))
def test_uniform_stays_within_its_bounds(seed: int, name: str, low: float, span: float) -> None:
    values = generator.uniform(seed, name, 300, low, low + span)
    slack = 1e-5 * (abs(low) + span)
    assert values.dtype == np.float32
    assert low - slack <= values.min() and values.max() <= low + span + slack


def test_uniform_has_the_moments_it_should_and_never_the_centre() -> None:
    values = generator.uniform(0, "moments", 200_000, -1, 1).astype(np.float64)
    assert abs(values.mean()) < 0.005
    assert abs(values.var() - 1 / 3) < 0.005
    assert not (values == 0).any()


@given(SEEDS, st.integers(-50, 50), st.integers(1, 1000))
def test_integers_stay_below_their_limit(seed: int, low: int, span: int) -> None:
    values = generator.integers(seed, "i", 100, low, low + span)
    assert values.min() >= low and values.max() < low + span


def test_streams_differ_by_seed_and_by_name() -> None:
    base = generator.words(0, "a", 8).tolist()
    assert base != generator.words(1, "a", 8).tolist()
    assert base != generator.words(0, "b", 8).tolist()

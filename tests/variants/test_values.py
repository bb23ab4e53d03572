"""What is known of a value: rough, interned, and true of the samples that are made from it."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from mindgap.records.tensors import DTYPES, TensorMeta
from mindgap.variants.values import Range, contiguous_stride, of_tensor, range_of, value

REAL = ["float32", "float64", "float16", "bfloat16", "int64", "int32", "int8", "uint8", "bool"]


@given(st.lists(st.integers(0, 4), max_size=4), st.sampled_from(REAL), st.integers(-5, 5), st.integers(0, 9))
def test_a_sample_has_its_values_meta_and_range(shape: list[int], dtype: str, low: int, width: int) -> None:
    low = max(low, 0) if dtype in ("uint8", "bool") else low
    floating = DTYPES[dtype].is_floating_point
    span = Range(float(low), float(low + width)) if floating else Range(low, low + width)
    known = value(TensorMeta(tuple(shape), dtype, contiguous_stride(tuple(shape))), span)
    sample = known.sample()
    assert TensorMeta.of(sample) == known.meta
    if sample.numel() and dtype != "bool":
        found = range_of(sample)
        slack = 0.02 * (known.range.high - known.range.low) if floating else 0  # float16 and bfloat16 round
        assert known.range.low - slack <= found.low and found.high <= known.range.high + slack


def test_equal_values_are_one_object() -> None:
    first, second = torch.tensor([0.5, 1.1]), torch.tensor([0.4, 0.9])
    assert of_tensor(first) is of_tensor(second)
    assert of_tensor(first) is not of_tensor(first.double())


def test_bounds_of_indices_are_exact_and_reached() -> None:
    known = of_tensor(torch.tensor([0, 511]))
    assert (known.range.low, known.range.high) == (0, 511)
    assert {int(known.sample().min()), int(known.sample().max())} == {0, 511}


@pytest.mark.parametrize(
    ("numbers", "poison", "kind"),
    [
        ([1.0, 2.0], 0, ""),
        ([1.0, 2.0, math.nan], 1, "nan"),
        ([1.0, -math.inf, -math.inf], 2, "-inf"),
        ([math.inf, -math.inf], 3, "both"),
    ],
)
def test_what_is_not_finite_is_counted(numbers: list[float], poison: int, kind: str) -> None:
    found = range_of(torch.tensor(numbers))
    assert (found.poison, found.kind) == (poison, kind)


def test_within_means_that_nothing_is_larger() -> None:
    meta = TensorMeta((4,), "float32", (1,))
    small, large = value(meta, Range(-1.0, 1.0)), value(meta, Range(-100.0, 100.0))
    assert small.within(large) and not large.within(small)
    assert not value(meta, Range(0.0, 0.0)).within(large), "a value that became constant is another"
    assert not value(meta, Range(-1.0, 1.0, 1, "nan")).within(large)


@given(st.lists(st.integers(0, 4), max_size=4))
def test_strides_are_torchs_own(shape: list[int]) -> None:
    assert contiguous_stride(tuple(shape)) == torch.empty(shape).stride()

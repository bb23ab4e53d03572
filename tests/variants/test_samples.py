"""Torch's own samples reach the overloads that they call."""

from __future__ import annotations

import pytest

from mindgap.records.variant import SAMPLES, Sweep
from mindgap.variants.invocations import Invoking
from mindgap.variants.samples import MOST_SAMPLES, has_samples, sample_calls

pytestmark = pytest.mark.skipif(not has_samples(), reason="expecttest is not installed")


@pytest.mark.parametrize("op", ["aten.relu.default", "aten.add.Tensor", "aten.relu_.default", "aten.softmax.int"])
def test_an_overload_has_samples_and_not_too_many(op: str) -> None:
    assert 0 < len(sample_calls(op, "float32")) <= 2 * MOST_SAMPLES  # softmax has two entries


def test_a_sample_becomes_an_invocation() -> None:
    asked = Sweep(("aten.relu.default",), ("float32",), (SAMPLES,))
    made = Invoking(asked, [], 0).make(0)
    assert made is not None and made.program.nodes[0].op == "aten.relu.default"

"""Operators are examined in windows: all of them, in order, none too large."""

from __future__ import annotations

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from mindgap.records.verdict import Conclusion
from mindgap.tracing import own
from mindgap.tracing.examine import Examiner, Symptom
from mindgap.tracing.extract import units
from mindgap.tracing.trace import trace
from tests.tracing.witnesses import plant, witness_of

LENGTH = 1500


def long_chain(x: torch.Tensor) -> torch.Tensor:
    """Thousands of operators; the one at fault stands near the end."""
    for step in range(LENGTH):
        x = x * 1.001 if step % 2 else x - 0.001
    x = torch.tanh(x)
    for _ in range(20):
        x = x + 0.5
    return x


@given(st.lists(st.integers(1, 64), min_size=1, max_size=12), st.integers(1, 5), st.integers(64, 4096))
@settings(deadline=None, max_examples=30)
def test_windows_hold_every_operator_once_and_keep_their_bounds(
    sizes: list[int], most_units: int, most_bytes: int
) -> None:
    def function(x: torch.Tensor) -> list[torch.Tensor]:
        return [x[:size] * 2 for size in sizes]

    program = witness_of(function, torch.ones(64)).program
    parts = units(program)
    before = own.WINDOW_UNITS, own.WINDOW_BYTES
    own.WINDOW_UNITS, own.WINDOW_BYTES = most_units, most_bytes  # type: ignore[misc]
    try:
        found = list(own.windows(program, parts))
    finally:
        own.WINDOW_UNITS, own.WINDOW_BYTES = before  # type: ignore[misc]
    assert [part for window in found for part in window] == list(parts)
    assert all(len(window) <= most_units for window in found)


def test_a_program_of_thousands_of_operators_is_traced_in_windows(examiner: Examiner) -> None:
    witness, culprit = plant(witness_of(long_chain, torch.linspace(-1, 1, 16)), "aten.tanh", "sign_lost")
    assert len(list(own.windows(witness.program, units(witness.program)))) > 3
    found = examiner.examine(witness)
    assert found.verdict.conclusion is Conclusion.DIVERGES and isinstance(found.symptom, Symptom)
    traced = trace(examiner, witness, found.symptom)
    assert traced.culprits == (culprit,)
    assert traced.plain_runs <= 12

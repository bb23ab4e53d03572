"""Operators are examined in windows: all of them, in order, none too large."""

from __future__ import annotations

from dataclasses import replace

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from mindgap.program.case import Case
from mindgap.program.graph import Ref
from mindgap.records.verdict import Conclusion
from mindgap.tracing import alone
from mindgap.tracing.examine import Examiner, Symptom
from mindgap.tracing.extract import units
from mindgap.tracing.trace import trace
from tests.tracing.witnesses import plant, witness_of

LENGTH = 2000


def long_witness() -> Case:
    """Thousands of additions with one hyperbolic tangent near the end; exporting as many would take half a minute."""
    short = witness_of(lambda x: torch.tanh(x) + 0.001, torch.linspace(-5, 1, 16))
    tanh, add = short.program.nodes
    places = range(100, 100 + LENGTH)
    sources = [short.program.inputs[0].id, *places]
    nodes = [replace(add, id=place, args=(Ref(source), *add.args[1:])) for place, source in zip(places, sources)]
    culprit = LENGTH - 20
    nodes[culprit] = replace(tanh, id=places[culprit], args=(Ref(sources[culprit]),))
    return replace(short, program=replace(short.program, nodes=tuple(nodes), outputs=(Ref(places[-1]),)))


@given(st.lists(st.integers(1, 64), min_size=1, max_size=12), st.integers(1, 5))
@settings(deadline=None, max_examples=10)
def test_windows_hold_every_operator_once(sizes: list[int], most_units: int) -> None:
    def function(x: torch.Tensor) -> list[torch.Tensor]:
        return [x[:size] * 2 for size in sizes]

    program = witness_of(function, torch.ones(64)).program
    parts = units(program)
    found = list(alone.windows(program, parts, most_units))
    assert [part for window in found for part in window] == list(parts)
    assert all(len(window) <= most_units for window in found)


def test_a_program_of_thousands_of_operators_is_traced_in_windows(examiner: Examiner) -> None:
    witness, culprit = plant(long_witness(), "aten.tanh", "sign_lost")
    assert len(list(alone.windows(witness.graph, units(witness.graph)))) > 3
    found = examiner.examine(witness)
    assert found.verdict.conclusion is Conclusion.DIVERGES and isinstance(found.symptom, Symptom)
    traced = trace(examiner, witness, found.symptom)
    assert traced.culprits == (culprit,)
    assert traced.plain_runs <= 12

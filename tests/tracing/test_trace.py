"""The node at fault is named, and those behind it are said to inherit."""

from __future__ import annotations

import pytest
import torch

from mindgap.records.verdict import Conclusion, Kind
from mindgap.tracing.examine import Examiner, Symptom
from mindgap.tracing.trace import trace
from tests.tracing.witnesses import chain, plant, witness_of, writing


@pytest.mark.parametrize(("op", "fault"), [("aten.sin", "scaled"), ("aten.exp", "tail_lost"), ("aten.mul", "nan_made")])
def test_the_planted_node_is_the_culprit(examiner: Examiner, op: str, fault: str) -> None:
    witness, node = plant(witness_of(chain, torch.randn(4, 4)), op, fault)
    found = examiner.examine(witness)
    assert found.symptom is not None
    path = trace(examiner, witness, found.symptom)
    assert path.culprits == (node,)
    culprit = path.step(node)
    assert culprit.at_fault and culprit.own is not None and culprit.own > 12 and culprit.wrong
    last = path.steps[-1]
    assert last.inherits and not last.at_fault and last.own == 0.0


def test_a_fault_that_needs_two_operators_is_nobodys_alone(examiner: Examiner) -> None:
    witness, _ = plant(witness_of(writing, torch.randn(3, 4)), "aten.select", "stale_view")
    found = examiner.examine(witness)
    assert found.symptom is not None
    assert trace(examiner, witness, found.symptom).culprits == ()


def test_a_platform_that_agrees_has_no_symptom(examiner: Examiner) -> None:
    found = examiner.examine(witness_of(chain, torch.randn(4, 4)))
    assert found.symptom is None and found.verdict.conclusion is Conclusion.AGREES


def test_one_fault_may_show_as_another_kind_when_operators_were_cut() -> None:
    value, integer = (Symptom(Conclusion.DIVERGES, kind) for kind in (Kind.VALUE, Kind.INTEGER))
    assert not value.fits(integer) and value.fits(integer, exactly=False)
    shape = Symptom(Conclusion.DIVERGES, Kind.SHAPE)
    assert not shape.fits(value, exactly=False) and not value.fits(shape, exactly=False)

"""A reduction keeps the finding, ends, and goes on where it was stopped."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from itertools import pairwise
from pathlib import Path

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from mindgap.program.case import Case
from mindgap.reduction.asking import Asker
from mindgap.reduction.journal import Journal
from mindgap.reduction.reducer import Budget, reduce
from mindgap.reduction.simplicity import digits, simplicity
from mindgap.tracing.capture import capture
from mindgap.tracing.examine import Examiner
from mindgap.tracing.extract import Value
from tests.tracing.witnesses import chain, plant, run_here, witness_of, writing


def values(witness: Case, parts: Sequence[Collection[int]]) -> list[dict[int, Value]]:
    return capture(run_here, witness, parts)


class NeedsExpOf:
    """The finding: `exp` sees a number above a limit."""

    def __init__(self, limit: float) -> None:
        self.limit = limit
        self.asked = 0

    def __call__(self, witnesses: Sequence[Case], after_cut: bool) -> int | None:
        for place, witness in enumerate(witnesses):
            self.asked += 1
            if self.shows(witness):
                return place
        return None

    def shows(self, witness: Case) -> bool:
        node = next((n for n in witness.graph.nodes if n.op == "aten.exp.default"), None)
        if node is None:
            return False
        fed = values(witness, [(node.id,)])[0][int(node.args[0])]
        return isinstance(fed, torch.Tensor) and bool((fed > self.limit).any())


@settings(max_examples=8, deadline=None)
@given(st.integers(0, 1000))
def test_the_finding_survives_and_one_operator_with_one_number_is_left(seed: int) -> None:
    x = torch.randn(4, 4, generator=torch.Generator().manual_seed(seed))
    question = NeedsExpOf(0.25)
    witness = witness_of(chain, x)
    if not question.shows(witness):
        return
    found = reduce(witness, question, values)
    assert found.finished and question.shows(found.witness)
    assert [node.op for node in found.witness.graph.nodes] == ["aten.exp.default"]
    assert found.witness.elements() == 1 and found.witness.tensors[0].item() == 1.0
    again = reduce(witness, NeedsExpOf(0.25), values)
    assert again.witness.key == found.witness.key and again.steps == found.steps


def test_every_step_is_simpler_than_the_one_before() -> None:
    found = reduce(witness_of(chain, torch.ones(4, 4) * 0.6), NeedsExpOf(0.25), values)
    sizes = [step.left for step in found.steps]
    assert sizes and all(later < earlier for earlier, later in pairwise(sizes))


def test_a_budget_of_proposals_ends_it() -> None:
    question = NeedsExpOf(0.25)
    found = reduce(witness_of(chain, torch.ones(4, 4) * 0.6), question, values, Budget(proposals=2))
    assert not found.finished and question.asked <= 4


def test_digits_count_what_there_is_to_read() -> None:
    sizes = [digits(torch.tensor(value)) for value in (0.0, 1.0, 2.0, 12.0, 1.2345)]
    assert sizes == sorted(sizes) and len(set(sizes)) == len(sizes)
    assert simplicity(witness_of(chain, torch.ones(4, 4))) < simplicity(witness_of(chain, torch.randn(4, 4)))


def test_a_planted_fault_is_reduced_on_the_platform_and_resumes(examiner: Examiner, tmp_path: Path) -> None:
    witness, _ = plant(witness_of(chain, torch.randn(4, 4)), "aten.sin", "sign_lost")
    symptom = examiner.examine(witness).symptom
    assert symptom is not None
    asker = Asker(examiner, symptom, Journal(tmp_path / "journal", "about"))
    found = reduce(witness, asker, asker.values)
    assert [node.op for node in found.witness.graph.nodes] == ["aten.sin.default"]
    assert found.witness.elements() == 1
    before = examiner.trials
    again = Asker(examiner, symptom, Journal(tmp_path / "journal", "about"))
    assert reduce(witness, again, again.values).witness.key == found.witness.key
    assert examiner.trials == before, "everything was in the journal"


def test_a_fault_of_two_operators_keeps_both(examiner: Examiner) -> None:
    witness, _ = plant(witness_of(writing, torch.randn(3, 4)), "aten.select", "stale_view")
    symptom = examiner.examine(witness).symptom
    assert symptom is not None
    asker = Asker(examiner, symptom)
    found = reduce(witness, asker, asker.values)
    left = [node.op for node in found.witness.graph.nodes]
    assert "aten.select.int" in left and any(op.split(".")[1].endswith("_") for op in left) and len(left) <= 4


def test_a_journal_that_was_cut_off_or_is_about_something_else(tmp_path: Path) -> None:
    path = tmp_path / "journal"
    Journal(path, "a").note("k", "value candidate")
    with path.open("a") as file:
        file.write('["half')
    assert Journal(path, "a").get("k") == "value candidate"
    assert Journal(path, "b").get("k") is None

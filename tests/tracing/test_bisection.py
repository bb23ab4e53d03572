"""A platform that shows nothing of what is inside: its program is cut until the operator is left."""

from __future__ import annotations

import functools
import time
from dataclasses import replace
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from mindgap.bench.faults import MARK, OPAQUE, Opaque, Planted
from mindgap.execution.pool import Pool
from mindgap.platforms.registry import resolve
from mindgap.program.case import Case
from mindgap.program.graph import Ref
from mindgap.records.platform import PlatformSpec
from mindgap.tracing.bisection import bisected, blocks, border
from mindgap.tracing.examine import Examination, Examiner, OutOfTime, Symptom
from mindgap.tracing.extract import ends_of, units
from mindgap.tracing.trace import NO_TIME, trace
from tests.tracing.witnesses import plant, witness_of

LAYERS = 12
FUSED = replace(OPAQUE, options={"fused": True}, worker="fused")


@functools.cache
def layered(marked: str = "", fault: str = "scaled") -> tuple[Case, int]:
    """A residual network of some layers, each a module of five operators, with a fault in one; and that node."""
    short = witness_of(lambda x: x * 0.5 + torch.sin(x * 1.3).tanh(), torch.linspace(-2, 2, 12).reshape(3, 4))
    graph = short.graph
    nodes, before, fresh = [], graph.inputs[0].id, 100
    for layer in range(LAYERS):
        new = {graph.inputs[0].id: before}
        for node in graph.nodes:
            new[node.id] = fresh
            args = tuple(Ref(new[int(arg)]) if isinstance(arg, Ref) else arg for arg in node.args)
            where = f"layers.{layer}.{'skip' if node is graph.nodes[-1] else 'branch'}"
            nodes.append(replace(node, id=fresh, args=args, where=where))
            fresh += 1
        before = fresh - 1
    case = short.with_program(replace(graph, nodes=tuple(nodes), outputs=Ref(before)))
    return plant_at(case, marked, fault) if marked else (case, 0)


def plant_at(case: Case, op: str, fault: str) -> tuple[Case, int]:
    """The fault at the last node but one of an operator."""
    node = [node for node in case.graph.nodes if node.op.startswith(op)][-2]
    marked = replace(node, where=f"{node.where}{MARK}{fault}")
    nodes = tuple(marked if other.id == node.id else other for other in case.graph.nodes)
    return case.with_program(replace(case.graph, nodes=nodes)), node.id


def examine(pool: Pool, spec: PlatformSpec, case: Case) -> tuple[Examiner, Symptom]:
    examiner = Examiner(pool, resolve("eager"), spec)
    symptom = examiner.examine(case).symptom
    assert symptom is not None
    return examiner, symptom


@pytest.mark.parametrize("op", ["aten.sin", "aten.add", "aten.tanh"])
def test_an_operator_that_is_wrong_alone_is_named(pool: Pool, op: str) -> None:
    witness, node = layered(op)
    examiner, symptom = examine(pool, OPAQUE, witness)
    assert bisected(examiner, witness, symptom) == (node,)
    before = examiner.trials
    found = trace(examiner, witness, symptom)
    assert found.culprits == (node,) and found.step(node).wrong
    assert examiner.trials - before < len(units(witness.graph)), "not one operator after the other"


def test_an_operator_that_is_wrong_only_with_its_reader_is_found_with_it(pool: Pool) -> None:
    witness, node = layered("aten.sin")
    examiner, symptom = examine(pool, FUSED, witness)
    found = trace(examiner, witness, symptom)
    places = {member.id: place for place, member in enumerate(witness.graph.nodes)}
    assert found.culprits == () and found.together == (node, witness.graph.nodes[places[node] + 1].id)


def test_what_is_wrong_only_together_is_found_block_by_block(pool: Pool) -> None:
    """Many outputs are no trouble for this platform, but it is right about whatever it shows."""
    seeing = PlatformSpec("seeing", f"{__name__}:Seeing", options={"fused": True})
    witness, node = layered("aten.sin")
    examiner, symptom = examine(pool, seeing, witness)
    found = trace(examiner, witness, symptom)
    assert node in found.together and len(found.together) <= 3


def test_a_program_of_one_operator_has_nowhere_to_cut(pool: Pool) -> None:
    witness, _ = plant(witness_of(torch.sin, torch.linspace(-2, 2, 4)), "aten.sin", "sign_lost")
    examiner, symptom = examine(pool, OPAQUE, witness)
    assert bisected(examiner, witness, symptom) == ()


@settings(deadline=None, max_examples=50)
@given(st.integers(0, 5 * LAYERS - 2), st.data())
def test_a_cut_lies_inside_and_at_the_border_of_modules(low: int, data: st.DataObject) -> None:
    program = layered()[0].graph
    parts = units(program)
    high = data.draw(st.integers(low + 2, 5 * LAYERS))
    place = border(program, parts, low, high)
    assert low < place < high
    if high - low >= 5 * 8:  # the middle quarter then holds a whole layer
        before, after = (program.nodes[index].where.split(".")[1] for index in (place - 1, place))
        assert before != after


@settings(deadline=None, max_examples=30)
@given(st.integers(1, 70))
def test_blocks_hold_every_operator_once(most: int) -> None:
    program = layered()[0].graph
    found = blocks(program, units(program), most)
    assert [place for low, high in found for place in range(low, high)] == list(range(5 * LAYERS))
    assert all(0 < high - low <= most for low, high in found)


def test_the_ends_of_a_part_are_what_nothing_else_of_it_reads() -> None:
    program = layered()[0].graph
    first = [node.id for node in program.nodes[:5]]
    assert ends_of(program, first) == [first[-1]]
    assert ends_of(program, first[:2]) == first[:2]
    assert ends_of(program, first[1:3]) == [first[2]]


class Hasty(Examiner):
    """Has time for so many examinations."""

    left = 0

    def examine(self, case: Case, *args: Any, **kwargs: Any) -> Examination:
        if not self.left:
            raise OutOfTime("the time is over")
        self.left -= 1
        return super().examine(case, *args, **kwargs)


def test_when_the_time_is_over_the_shortest_so_far_counts(pool: Pool) -> None:
    witness, node = layered("aten.sin")
    _, symptom = examine(pool, OPAQUE, witness)
    sizes = []
    for left in (0, 4, 9):
        hasty = Hasty(pool, resolve("eager"), OPAQUE)
        hasty.left = left
        found = bisected(hasty, witness, symptom)
        assert not found or node in found
        sizes.append(len(found) or len(witness.graph.nodes))
    assert sizes == sorted(sizes, reverse=True) and sizes[0] > sizes[1] > sizes[2]


def test_a_trace_without_time_says_so(pool: Pool) -> None:
    witness, _ = layered("aten.sin")
    examiner, symptom = examine(pool, OPAQUE, witness)
    examiner.until = time.monotonic() - 1
    found = trace(examiner, witness, symptom)
    assert found.culprits == found.together == () and found.note == NO_TIME
    assert len(found.steps) == len(units(witness.graph))


class Seeing(Planted):
    """Wrong where the marked node is not returned, whatever else is."""

    runtime = "seeing"
    spoils = Opaque.spoils

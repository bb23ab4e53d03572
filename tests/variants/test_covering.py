"""The cover: complete, small, and the same whoever asks."""

from __future__ import annotations

from random import Random

from hypothesis import given
from hypothesis import strategies as st

from mindgap.variants.base import Base
from mindgap.variants.covering import Candidate, candidate_of, cover

OPERATORS = tuple(f"aten.op{number}" for number in range(8))


@st.composite
def candidates(draw: st.DrawFn) -> list[Candidate]:
    """Programs of a few operators, each in a few contexts."""
    made = []
    for number in range(draw(st.integers(0, 12))):
        contexts = draw(st.frozensets(st.tuples(st.sampled_from(OPERATORS), st.integers(0, 3)), max_size=6))
        operators = frozenset(operator for operator, _ in contexts)
        named = frozenset(f"{operator} {context}" for operator, context in contexts)
        made.append(Candidate(f"p{number}", operators, named, draw(st.integers(1, 600)), draw(st.booleans())))
    return made


def operators_of(found: list[Candidate]) -> set[str]:
    return set().union(*(item.operators for item in found))


def contexts_of(found: list[Candidate]) -> set[str]:
    return set().union(*(item.contexts for item in found))


@given(candidates())
def test_without_a_limit_everything_is_covered_and_no_program_is_idle(found: list[Candidate]) -> None:
    chosen = cover(found, len(found))
    assert operators_of(chosen) == operators_of(found)
    assert contexts_of(chosen) >= contexts_of([item for item in found if not item.is_reserve])
    for number, item in enumerate(chosen):
        assert item.contexts - contexts_of(chosen[:number]), "it brought nothing"


@given(candidates(), st.integers(0, 12), st.integers(0, 12))
def test_a_shorter_cover_is_the_beginning_of_a_longer_one(found: list[Candidate], one: int, other: int) -> None:
    short, long = sorted((one, other))
    assert cover(found, long)[:short] == cover(found, short)
    assert len(cover(found, short)) <= short


@given(candidates(), st.integers(0, 12), st.randoms(use_true_random=False))
def test_the_order_of_the_programs_does_not_matter(found: list[Candidate], programs: int, rng: Random) -> None:
    assert cover(rng.sample(found, len(found)), programs) == cover(found, programs)


@given(candidates(), st.integers(0, 12))
def test_the_reserve_is_used_only_for_operators_that_no_other_has(found: list[Candidate], programs: int) -> None:
    others = operators_of([item for item in found if not item.is_reserve])
    assert all(item.operators - others for item in cover(found, programs) if item.is_reserve)


@given(candidates(), st.integers(0, 12))
def test_operators_come_before_contexts(found: list[Candidate], programs: int) -> None:
    chosen = cover(found, programs)
    brought = [bool(item.operators - operators_of(chosen[:number])) for number, item in enumerate(chosen)]
    assert brought == sorted(brought, reverse=True)


def test_of_two_that_bring_the_same_the_smaller_is_chosen() -> None:
    same = frozenset({"aten.op0"}), frozenset({"aten.op0 0"})
    small, large = Candidate("b", *same, 10), Candidate("a", *same, 500)
    assert cover([large, small], 2) == [small]


def test_a_context_is_what_fragments_count(base: Base) -> None:
    found = candidate_of(base.name, base.program)
    assert found.cost > len(base.program.nodes) and found.operators == {node.op for node in base.program.nodes}
    assert any(context.startswith("aten.linear.default float32 | 2 dense") for context in found.contexts)

"""The operator after which a program diverges is found by cutting it."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import given, settings
from hypothesis import strategies as st
from mindgap.campaign.suspects import cut, first_diverging

from mindgap.program.graph import Program, Ref, leaves
from tests.campaign.programs import OPS, program


@settings(max_examples=40, deadline=None)
@given(st.lists(st.tuples(st.integers(1, 30), st.integers(0, 29)), min_size=1, max_size=5))
def test_the_guilty_operator_is_found_in_few_requests(sizes: list[tuple[int, int]]) -> None:
    programs = [program(n, [OPS[place % len(OPS)] for place in range(size)]) for n, (size, _) in enumerate(sizes)]
    guilty = {f"tiny~{n}": place for n, (_, place) in enumerate(sizes)}
    requests = 0

    def diverges(cuts: Sequence[Program]) -> list[bool]:
        nonlocal requests
        requests += 1
        return [len(item.nodes) > guilty[item.name] for item in cuts]

    found = first_diverging(programs, diverges)
    expected = [OPS[place % len(OPS)] if place < size else None for size, place in sizes]
    assert found == expected
    assert requests <= 7


def test_a_cut_program_gives_back_what_the_rest_needs() -> None:
    whole = program(0, OPS)
    shorter = cut(whole, 3)
    assert shorter is not None and len(shorter.nodes) == 3
    assert [int(leaf) for _, leaf in leaves(shorter.outputs) if isinstance(leaf, Ref)] == [3]
    assert cut(whole, 0) is None

"""Programs side by side give what each gives alone, and one that is refused ends up alone."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from mindgap.platforms.base import StageClock
from mindgap.platforms.running import one_run
from mindgap.platforms.torch.eager import Eager
from mindgap.program.case import Case
from mindgap.program.crowd import by_halves, crowd_of
from mindgap.records.platform import PlatformSpec
from mindgap.records.tensors import NamedTensor, same_bits
from tests.tracing.witnesses import chain, witness_of, writing


def changing(x: torch.Tensor) -> torch.Tensor:
    x.add_(1.0)
    return x * 2.0


PROGRAMS = {"chain": (chain, (4, 4)), "writing": (writing, (3, 4)), "changing": (changing, (5,))}


def run_here(case: Case) -> list[NamedTensor]:
    """What eager gives, changed inputs included."""
    clock = StageClock(lambda stage: None)
    return one_run(Eager(PlatformSpec("eager", "eager")).prepare(case, clock), case, clock)


def witness(name: str) -> Case:
    function, shape = PROGRAMS[name]
    return witness_of(function, torch.linspace(-1.0, 2.0, torch.Size(shape).numel()).reshape(shape))


@settings(max_examples=12, deadline=None)
@given(st.lists(st.sampled_from(sorted(PROGRAMS)), min_size=1, max_size=4))
def test_members_give_what_each_gives_alone_under_its_own_names(names: list[str]) -> None:
    alone = [witness(name) for name in names]
    crowd = crowd_of(alone)
    for member, given_here in zip(alone, crowd.split(run_here(crowd.case))):
        expected = run_here(member)
        assert [item.name for item in given_here] == [item.name for item in expected]
        assert all(same_bits(a.tensor, b.tensor) for a, b in zip(given_here, expected))


def test_a_changed_input_belongs_to_its_member() -> None:
    crowd = crowd_of([witness("chain"), witness("changing")])
    first, second = crowd.split(run_here(crowd.case))
    assert not any(item.name.startswith("input:") for item in first)
    assert [item.name for item in second][-1].startswith("input:")


@given(st.sets(st.integers(0, 30)), st.integers(1, 31))
def test_the_guilty_are_found_alone_and_nobody_else_suffers(guilty: set[int], count: int) -> None:
    found: dict[int, str] = {}

    def settle(members: Sequence[int]) -> bool:
        if len(members) > 1 and guilty & set(members):
            return False
        found.update({member: "refused" if member in guilty else "ok" for member in members})
        return True

    by_halves(range(count), settle)
    assert found == {n: "refused" if n in guilty else "ok" for n in range(count)}


def test_whoever_knows_the_guilty_can_part_them_at_once() -> None:
    asked: list[list[int]] = []

    def settle(members: Sequence[int]) -> bool:
        asked.append(list(members))
        return len(members) == 1 or 5 not in members

    by_halves(range(8), settle, part=lambda members: ([5], [n for n in members if n != 5]))
    assert asked == [list(range(8)), [5], [0, 1, 2, 3, 4, 6, 7]]

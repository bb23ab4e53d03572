"""Results are found by identity, and never those of another object."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from mindgap.program.memo import Memo


def test_each_object_is_worked_out_once() -> None:
    made: list[int] = []

    def length(item: list[int]) -> int:
        made.append(len(item))
        return len(item)

    memo = Memo(length)
    item = [1, 2, 3]
    assert [memo(item), memo(item), memo([7])] == [3, 3, 1]
    assert made == [3, 1]


@given(st.lists(st.lists(st.integers()), max_size=200), st.integers(1, 8))
def test_the_result_is_always_that_of_the_object(items: list[list[int]], most: int) -> None:
    """Objects that nobody else keeps are made and dropped: an identity is soon given again."""
    memo = Memo(lambda item: tuple(item), most)
    assert [memo(list(item)) for item in items] == [tuple(item) for item in items]
    assert len(memo._kept) <= most

"""The time left comes true: tried with clocks that tests set."""

from __future__ import annotations

import math

from hypothesis import given, settings
from hypothesis import strategies as st

from mindgap.records.progress import LATELY, Lane, duration, in_turn, together

PACE = st.floats(0.01, 1000.0)


@settings(deadline=None)
@given(pace=PACE, total=st.integers(2, 200), start_up=st.floats(0.0, 500.0), part=st.floats(0.0, 1.0))
def test_at_a_constant_pace_the_time_left_is_right(pace: float, total: int, start_up: float, part: float) -> None:
    """From the second item on, at each moment between two items, whatever starting up took."""
    begin = 1000.0
    lane = Lane(total).begun(begin)
    end = begin + start_up + total * pace
    for number in range(1, total + 1):
        now = begin + start_up + number * pace
        lane = lane.advanced(now)
        moment = now + part * pace
        left = lane.left_s(moment)
        if number == total:
            assert left == 0.0
        elif number > 1:
            assert left is not None and math.isclose(left, end - moment, rel_tol=1e-6, abs_tol=1e-6)


@settings(deadline=None)
@given(pace=PACE, size=st.integers(1, 100))
def test_items_that_come_in_batches_have_a_pace_too(pace: float, size: int) -> None:
    lane = Lane(10 * size).begun(0.0)
    for number in range(1, 11):
        lane = lane.advanced(number * size * pace, size)
        if number > 1:
            assert math.isclose(lane.pace_s(number * size * pace) or 0.0, pace)


@settings(deadline=None)
@given(steps=st.lists(st.tuples(st.floats(0.0, 100.0), st.integers(1, 40), st.integers(0, 500)), max_size=60))
def test_counts_never_go_back_nor_beyond_the_total(steps: list[tuple[float, int, int]]) -> None:
    """However totals are guessed and items arrive."""
    now, lane = 0.0, Lane(10).begun(0.0)
    for pause, count, total in steps:
        before, now = lane.done, now + pause
        lane = lane.advanced(now, count).expecting(total)
        assert before < lane.done <= lane.total
        left = lane.left_s(now + 1.0)
        assert left is None or (left >= 0.0 if lane.owed else left == 0.0)
        assert len(lane.marks) < 400


def test_a_pace_that_changes_is_the_latest_one() -> None:
    now, lane = 0.0, Lane(1000).begun(0.0)
    for pace, count in ((0.01, 500), (10.0, LATELY + 2)):
        for _ in range(count):
            now += pace
            lane = lane.advanced(now)
    assert math.isclose(lane.pace_s(now) or 0.0, 10.0)


def test_silence_makes_the_time_left_grow() -> None:
    """Nothing ends any more: the estimate must not count down to zero and stay there."""
    lane = Lane(10).begun(0.0).advanced(1.0).advanced(2.0)
    times = [lane.left_s(2.0 + waited) or 0.0 for waited in (0.0, 1.0, 10.0, 100.0)]
    assert times[0] == 8.0 and times[1] == 7.0 < times[2] < times[3]


def test_before_the_second_item_there_is_a_guess_or_nothing() -> None:
    """The first one pays for starting up, which may be nearly all of it."""
    assert Lane(3).begun(0.0).advanced(50.0).left_s(55.0) is None
    assert Lane(3, guess_s=10.0).begun(0.0).left_s(4.0) == 26.0
    assert Lane(3, done=3).left_s(0.0) == 0.0


def test_the_slowest_of_those_at_once_and_the_sum_of_those_in_turn() -> None:
    assert together([1.0, 5.0, 2.0]) == 5.0 and together([]) == 0.0 and together([1.0, None]) is None
    assert in_turn([1.0, 5.0, 2.0]) == 8.0 and in_turn([1.0, None]) is None
    assert [duration(s) for s in (4.4, 99.0, 119.0, 7200.0)] == ["4 s", "99 s", "2 min", "2.0 h"]

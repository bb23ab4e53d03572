"""Who has the next turn: models first, then everybody once, then whoever finds most."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mindgap.errors import CorruptFile
from mindgap.study.budget import LONGEST_S, SHORTEST_S, TURNS, Turn, keep_turns, next_phase, read_turns, turn_s
from mindgap.study.plan import FRAGMENTS, MODELS, OPERATORS, PHASES, VARIANTS

HOUR = 3600.0
turns = st.builds(
    Turn, st.sampled_from(PHASES), st.floats(1, 900), st.just({"eager": 1}), st.just(0), st.integers(0, 9)
)


def test_models_go_first_but_not_for_ever() -> None:
    assert next_phase([], PHASES, HOUR) == MODELS
    assert next_phase([Turn(MODELS, 1100)], PHASES, HOUR) == MODELS
    assert next_phase([Turn(MODELS, 1300)], PHASES, HOUR) == VARIANTS


def test_everybody_has_a_turn_before_anybody_has_another() -> None:
    done = [Turn(MODELS, 1300, new=50), Turn(VARIANTS, 200, new=9)]
    assert next_phase(done, PHASES, HOUR) == FRAGMENTS
    assert next_phase([*done, Turn(FRAGMENTS, 200)], PHASES, HOUR) == OPERATORS


def test_time_goes_where_the_last_turn_found_most() -> None:
    done = [Turn(MODELS, 1300, new=1), Turn(VARIANTS, 200, new=2), Turn(FRAGMENTS, 200, new=7), Turn(OPERATORS, 200)]
    assert next_phase(done, PHASES, HOUR) == FRAGMENTS
    assert next_phase([*done, Turn(FRAGMENTS, 200)], PHASES, HOUR) == VARIANTS, "it stopped finding"


@given(st.lists(turns, max_size=12), st.sets(st.sampled_from(PHASES), min_size=1), st.floats(10, 1e6))
def test_whoever_has_a_turn_has_something_left(done: list[Turn], left: set[str], budget_s: float) -> None:
    assert next_phase(done, [phase for phase in PHASES if phase in left], budget_s) in left


@given(st.floats(1, 1e6))
def test_a_turn_is_worth_its_start_and_never_longer_than_the_study(budget_s: float) -> None:
    assert min(SHORTEST_S, budget_s) <= turn_s(budget_s) <= min(LONGEST_S, budget_s)


def test_turns_are_read_as_they_were_kept_and_damage_is_told(tmp_path: Path) -> None:
    done = [Turn(MODELS, 2.5, {"eager": 3, "eager@scalar": 3}, 2, 2, True), Turn(VARIANTS, 1.0)]
    assert read_turns(tmp_path) == []
    keep_turns(tmp_path, done)
    assert read_turns(tmp_path) == done
    (tmp_path / TURNS).write_text("not a turn\n")
    with pytest.raises(CorruptFile, match="damaged"):
        read_turns(tmp_path)

"""When it happens, in words: one thing varied at a time."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from mindgap.tracing.conditions import (
    SIZES,
    Trial,
    _ask,
    _in_layouts,
    _in_precisions,
    _of_two_sizes,
    _resized,
    _with_values,
    find_conditions,
    separating_choice,
    separating_size,
)
from mindgap.tracing.examine import Examiner
from tests.tracing.witnesses import plant, witness_of


@pytest.mark.parametrize(
    ("words", "wrong"),
    [
        ("is odd", lambda size: size % 2 == 1),
        ("is a multiple of 8", lambda size: size % 8 == 0),
        ("is not a multiple of 16", lambda size: size % 16 != 0),
        ("is at least 17", lambda size: size > 16),
        ("is at most 8", lambda size: size < 9),
    ],
)
def test_the_simplest_statement_is_found(words: str, wrong: Callable[[int], bool]) -> None:
    found = separating_size("the size 17", [Trial(size, wrong(size)) for size in SIZES])
    assert found is not None and found.words == f"the size 17 {words}"
    assert found.explains == found.of == len(SIZES)


@given(st.lists(st.tuples(st.sampled_from(SIZES), st.booleans()), min_size=1, max_size=20, unique_by=lambda t: t[0]))
def test_what_is_said_explains_more_than_always(trials: list[tuple[int, bool]]) -> None:
    made = [Trial(size, wrong) for size, wrong in trials]
    found = separating_size("the size", made)
    always = sum(trial.wrong for trial in made)
    assert (found is None) == (always == len(made))
    assert found is None or always <= found.explains <= found.of == len(made)


def test_choices() -> None:
    trials = [Trial("float32", True), Trial("float64", False), Trial("float16", True)]
    found = separating_choice("the dtype", trials)
    assert found is not None and found.words == "the dtype: float32, float16; not float64"
    assert separating_choice("the dtype", [Trial("float32", True)]) is None
    assert separating_choice("two sizes of 5", [Trial("unequal", True), Trial("unequal", False)]) is None


def test_sizes_are_changed_in_inputs_and_arguments() -> None:
    witness = witness_of(lambda x: (x * 2).reshape(3, 5).sum(1), torch.arange(15.0).reshape(5, 3))
    made = dict(_resized(witness, 5))
    assert made and all(case.tensors[0].shape == (size, 3) for size, case in made.items())


def test_precisions_and_values_keep_the_sizes() -> None:
    witness = witness_of(lambda x: x * 2, torch.tensor([1.5, -2.5]))
    assert {name for name, _ in _in_precisions(witness)} == {"float64", "bfloat16", "float16"}
    made = {name: case.tensors[0] for name, case in _with_values(witness)}
    assert made["all negative"].tolist() == [-1.5, -2.5] and made["all positive"].tolist() == [1.5, 2.5]


def test_equal_sizes_are_made_unequal_and_unequal_ones_equal() -> None:
    witness = witness_of(lambda x, y: x @ y.sum(1), torch.randn(4, 4), torch.randn(4, 3))
    groups = {name: (own, [case.tensors[0].shape for _, case in made]) for name, own, made in _of_two_sizes(witness)}
    assert groups["two sizes of 4"] == ("equal", [(5, 4), (3, 4)])
    assert groups["the sizes 4 and 3"] == ("unequal", [(3, 3)])


def test_layouts_keep_the_values() -> None:
    x = torch.arange(24.0).reshape(1, 2, 3, 4)
    made = {name: case.tensors[0] for name, case in _in_layouts(witness_of(lambda x: x * 2, x))}
    assert list(made) == ["transposed", "with gaps", "channels last"]
    assert all(torch.equal(tensor, x) and not tensor.is_contiguous() for tensor in made.values())


def test_whole_numbers_change_their_signs_only() -> None:
    made = {name: case.tensors[0].tolist() for name, case in _with_values(witness_of(abs, torch.tensor([-7, 3])))}
    assert made == {"all positive": [7, 3], "all negative": [-7, -3]}


def test_what_does_not_run_takes_nothing_else_with_it(examiner: Examiner) -> None:
    fault, _ = plant(
        witness_of(lambda x, i: (x * 3)[i], torch.tensor([-1.5]), torch.tensor([0])), "aten.mul", "sign_lost"
    )
    outside = fault.with_tensors([torch.tensor([-1.5]), torch.tensor([9])])
    quiet = fault.with_tensors([torch.tensor([1.5]), torch.tensor([0])])
    answers: dict[int, bool] = {}
    _ask(examiner, [fault, outside, quiet], range(3), answers)
    assert answers == {0: True, 2: False}


def test_a_planted_fault_has_its_condition(examiner: Examiner) -> None:
    """A sign that is lost shows with negative numbers only, whatever the size."""
    witness, _ = plant(witness_of(lambda x: x * 3, torch.tensor([1.5, -2.5, 3.5])), "aten.mul", "sign_lost")
    found = examiner.examine(witness)
    assert found.symptom is not None
    told = find_conditions(examiner, witness, found.symptom)
    values = next(line for line in told if line.startswith("values: "))
    wrong, _, right = values.partition("; not ")
    assert "all negative" in wrong and "all positive" in right

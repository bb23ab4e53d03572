"""Rounds: a fragment on other numbers, and on nothing but other numbers."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace

import pytest
import torch

from mindgap.program.codec import encode
from mindgap.program.graph import Input, TensorMeta
from mindgap.program.made import Held, Planted, Whole, recreate
from mindgap.variants.base import Base, load_bases
from mindgap.variants.fragments import Fragmenting
from mindgap.variants.origin import again
from mindgap.variants.rounds import APART, NEGATIVE, ROUNDS, STRAY, in_round
from mindgap.variants.special import POSITIONS, classes_of
from mindgap.variants.streaming import described
from mindgap.variants.synthesis import Variant

PROGRAMS = 60


@pytest.fixture(scope="module")
def some() -> list[Base]:
    return load_bases(["smoke:vision-convnext", "smoke:language-bart"])


@pytest.fixture(scope="module")
def made(some: list[Base]) -> list[list[Variant]]:
    stream = Fragmenting(some, 0)
    return [[stream.make(number * ROUNDS + turn) for turn in range(ROUNDS)] for number in range(PROGRAMS)]


def test_rounds_differ_in_nothing_but_numbers(made: list[list[Variant]]) -> None:
    for rounds in made:
        bare = {encode(replace(variant.program, name="", example=())) for variant in rounds}
        assert len(bare) == 1
        parts = [described(variant) for variant in rounds]
        assert len({part.structure for part in parts}) == 1
    assert len({described(rounds[0]).structure for rounds in made}) > 0.9 * PROGRAMS


def test_all_numbers_of_a_round_can_be_made(made: list[list[Variant]]) -> None:
    for rounds in made:
        for variant in rounds:
            for item, recipe in zip(variant.program.inputs, variant.program.example):
                assert tuple(recreate(recipe, item.meta).shape) == item.meta.shape


def test_a_round_is_made_again_from_its_recipe_and_from_its_number(some: list[Base], made: list[list[Variant]]) -> None:
    for rounds in made[:6]:
        assert encode(again(rounds[3].provenance).program) == encode(rounds[3].program)
    late = Fragmenting(some, 0).make(5 * ROUNDS + 6)
    assert encode(late.program) == encode(made[5][6].program)


def test_the_rounds_of_an_operator_go_through_most_classes_of_values(made: list[list[Variant]]) -> None:
    met: defaultdict[str, set[str]] = defaultdict(set)
    for rounds in made:
        dtype = rounds[0].provenance.focus[1]
        values = {variant.provenance.values for variant in rounds}
        met[dtype] |= values
        assert len(values - {STRAY, NEGATIVE, APART}) >= min(ROUNDS - 3, len(classes_of(dtype)))
    assert set(classes_of("float32")) <= met["float32"]


def test_positions_stay_where_they_are_but_in_the_round_that_asks_for_strays(made: list[list[Variant]]) -> None:
    strays = 0
    for rounds in made:
        for variant in rounds:
            for item, before, now in zip(variant.program.inputs, rounds[0].program.example, variant.program.example):
                whole = item.meta.dtype.startswith(("int", "uint"))
                if not whole or not (isinstance(before, Held) or getattr(before, "stream", "") in POSITIONS):
                    continue
                if variant.provenance.values not in (STRAY, NEGATIVE):
                    assert now == before
                elif isinstance(before, Whole):
                    strays += 1
                    assert isinstance(now, Planted) and all(not 0 <= x < before.high for x in now.values)
    assert strays


def test_a_complex_number_is_no_position(made: list[list[Variant]]) -> None:
    """A real model hands over complex numbers beside positions: only these are led astray."""
    numbers, where = torch.tensor([1 + 2j, 3j]), torch.tensor([1, 0])
    inputs = (Input(0, "numbers", TensorMeta.of(numbers)), Input(1, "where", TensorMeta.of(where)))
    held = (Held(numbers.numpy().tobytes()), Held(where.numpy().tobytes()))
    found = made[0][0]
    found = replace(found, program=replace(found.program, inputs=inputs, example=held, nodes=(), outputs=()))
    seen = [in_round(found, turn) for turn in range(ROUNDS)]
    assert {STRAY, NEGATIVE} <= {variant.provenance.values for variant in seen}
    for variant in seen:
        assert variant.program.example[0] == held[0]
        assert (variant.program.example[1] != held[1]) == (variant.provenance.values in (STRAY, NEGATIVE))

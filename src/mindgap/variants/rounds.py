"""The same fragment on other numbers: what it costs is lowering it, and that is paid once for all of its rounds."""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import Final

import torch

from mindgap.program.graph import Input
from mindgap.program.made import Held, Made, Planted, Recipe, Whole
from mindgap.records.tensors import DTYPES
from mindgap.variants.roles import must_ascend
from mindgap.variants.special import ORDINARY, POSITIONS, classes_of, recipe_of, special_values
from mindgap.variants.synthesis import Variant

ROUNDS: Final = 8
"""Fragments in a row that differ in nothing but numbers: most classes of values, each for itself and mixed."""
STRAY: Final = "stray"
NEGATIVE: Final = "negative positions"
"""Positions that lie outside of what they index: does a platform check both bounds as eager does?"""
APART: Final = "apart"
"""Each input with a class of values of its own."""


def in_round(found: Variant, turn: int) -> Variant:
    """The fragment in one of its rounds; the first is the one that it was made for."""
    if not turn:
        return found
    before = found.provenance
    op, dtype, first = before.focus[:3]
    rng = Random(f"{before.base} {before.seed} {op} round {turn}")
    positions = any(_is_position(i, r) for i, r in zip(found.program.inputs, found.program.example))
    values = _class_of(turn, dtype, first, positions, Random(f"{before.base} {before.seed} {op} rounds"))
    pairs = zip(found.program.inputs, found.program.example)
    fixed = must_ascend(found.program.nodes)
    example = tuple(recipe if item.id in fixed else _other(item, recipe, values, rng) for item, recipe in pairs)
    program = replace(found.program, example=example, name=f"{found.program.name}.{turn}")
    told = (*before.steps, f"on {'other' if values == ORDINARY else values} values")
    return Variant(program, replace(before, values=values, steps=told, focus=(op, dtype, first, str(turn))))


def _class_of(turn: int, dtype: str, first: str, positions: bool, rng: Random) -> str:
    """All rounds of a fragment know the same order of classes."""
    others = [values for values in classes_of(dtype) if values != first]
    rng.shuffle(others)
    if turn >= ROUNDS - 3 and turn != ROUNDS - 2 and positions:
        return STRAY if turn == ROUNDS - 1 else NEGATIVE
    if turn == ROUNDS - 2:
        return APART
    return others[turn - 1] if turn <= len(others) else ORDINARY


def _is_position(item: Input, recipe: Recipe) -> bool:
    """Whether an input says where something lies: it was made as an index, or is what a real model counts with."""
    dtype = DTYPES[item.meta.dtype]
    if dtype.is_floating_point or dtype.is_complex or dtype is torch.bool:
        return False
    return isinstance(recipe, Held) or (isinstance(recipe, Whole) and recipe.stream in POSITIONS)


def _other(item: Input, recipe: Recipe, values: str, rng: Random) -> Recipe:
    dtype = item.meta.dtype
    if _is_position(item, recipe):
        return _strayed(recipe, dtype, values, rng) if values in (STRAY, NEGATIVE) else recipe
    known = classes_of(dtype)
    chosen = rng.choice(known) if values == APART else values if values in known else ORDINARY
    ground = recipe.ground if isinstance(recipe, Planted) else recipe
    if isinstance(ground, Held) and chosen == ORDINARY:
        return ground
    if isinstance(ground, Held):  # what really arrives there, with special values among it
        return Planted(ground, rng.randrange(1 << 16), special_values(chosen, dtype), rng.choice((2, 3, 16)))
    low, high = (ground.low, ground.high) if isinstance(ground, Made) else (-1.0, 1.0)
    return recipe_of(dtype, chosen, rng, low, high)


def _strayed(recipe: Recipe, dtype: str, values: str, rng: Random) -> Recipe:
    info = torch.iinfo(DTYPES[dtype])
    limit = recipe.high if isinstance(recipe, Whole) else int(info.max) - 7
    outside = (-1,) if values == NEGATIVE else (limit, -limit - 1, limit + 7)
    stray = tuple(x for x in outside if info.min <= x <= info.max)
    if not stray or isinstance(recipe, Planted):
        return recipe
    return Planted(recipe, rng.randrange(1 << 16), stray, rng.choice((2, 16)))

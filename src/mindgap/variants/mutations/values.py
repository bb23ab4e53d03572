"""Other numbers: scaled towards overflow and underflow, cancelled, tied, and exceptional where they reach operators."""

from __future__ import annotations

from typing import Final

from mindgap.program.graph import Ref
from mindgap.program.made import Made, Planted, Recipe, Whole
from mindgap.variants import pick
from mindgap.variants.draft import Draft
from mindgap.variants.registry import Family, mutation
from mindgap.variants.roles import must_ascend
from mindgap.variants.rules import Refused
from mindgap.variants.special import special_values

_PLANS: Final = ("nan", "infinities", "zeros", "denormals", "extremes", "ties", "mixed", "large-angles", "near-whole")
"""Exceptional values that a variant may hold; `ordinary` means none."""
_FACTORS: Final = (1e4, 1e10, 1e18, 1e30, 1e-4, 1e-10, 1e-20, 1e-38, 65504.0, -1.0)
_LARGE: Final = (1e4, 1e6, 1e8, 2.0**24, 16777217.0)
_TURNS: Final = (1e3, 1e5, 1e8, 2.0**30, 1e15, 1e22)
_MOST_CHANGED: Final = 1 << 14
"""Elements up to which a constant gets new numbers; larger ones are scaled by an operator."""


@mutation(Family.VALUES, "a constant that a recipe of floating numbers makes")
def scale_weight(draft: Draft) -> str:
    """Scale a weight towards overflow or underflow."""
    constants = [c for c in draft.base.program.constants if c.meta.dtype.startswith(("float", "bfloat"))]
    one = pick.one(draft, constants, "no constant is floating")
    users, factor = list(draft.users(one.id)), draft.rng.choice(_FACTORS)
    if not users:
        raise Refused("the constant is not used any more")
    if isinstance(one.made, Made) and draft.tensor(one.id).numel <= _MOST_CHANGED:
        low, high = sorted((one.made.low * factor, one.made.high * factor))
        draft.change_constant(one.id, Made(one.made.seed, one.made.stream, low, high))
        return f"scale {one.name} by {factor:g}"
    user = draft.rng.choice(users)
    draft.redirect(user, one.id, draft.insert(user, "aten.mul.Scalar", [Ref(one.id), factor]))
    return f"scale {one.name} by {factor:g} in front of node {user}"


@mutation(Family.VALUES, "an edge that carries a floating tensor")
def scale_activation(draft: Draft) -> str:
    """Scale a value towards overflow or underflow, perhaps only for one operator."""
    user, source = pick.edge(draft, floating=True)
    factor = draft.rng.choice(_FACTORS)
    scaled = draft.insert(user, "aten.mul.Scalar", [source, factor])
    if draft.rng.random() < 0.3:
        scaled = draft.insert(user, "aten.div.Scalar", [scaled, factor])
    draft.redirect(user, source, scaled)
    return f"scale %{int(source)} by {factor:g} in front of node {user}"


@mutation(Family.VALUES, "an edge that carries a floating tensor")
def cancel(draft: Draft) -> str:
    """Add a large number and take it away again: what is left has lost digits."""
    user, source = pick.edge(draft, floating=True)
    number = draft.rng.choice(_LARGE)
    large = draft.insert(user, "aten.add.Scalar", [source, number])
    draft.redirect(user, source, draft.insert(user, "aten.sub.Scalar", [large, number]))
    return f"add and subtract {number:g} at %{int(source)} in front of node {user}"


@mutation(Family.VALUES, "an edge that carries a floating tensor", weight=0.5)
def huge_angle(draft: Draft) -> str:
    """Take the sine, cosine or tangent of a huge number."""
    user, source = pick.edge(draft, floating=True)
    turns = draft.rng.choice(_TURNS)
    op = draft.rng.choice(("aten.sin.default", "aten.cos.default", "aten.tan.default"))
    angle = draft.insert(user, "aten.mul.Scalar", [source, turns])
    draft.redirect(user, source, draft.insert(user, op, [angle]))
    return f"take {op} of %{int(source)} times {turns:g} in front of node {user}"


@mutation(Family.VALUES, "an input that can hold the plan's values", weight=2.0)
def special_inputs(draft: Draft) -> str:
    """Plant exceptional values in an input: NaN, infinities, zeros, denormals, extremes, ties."""
    item = pick.one(draft, draft.base.program.inputs, "the program has no input")
    if item.id in must_ascend(node for user in draft.users(item.id) if (node := draft.node(user)) is not None):
        raise Refused("its elements must stay in order")
    plan = draft.rng.choice(_PLANS)
    recipe = _planned(draft, draft.example(item.id), draft.input(item.id).meta.dtype, plan)
    draft.allow_poison = True
    draft.change_input(item.id, recipe)
    draft.plan = plan
    return f"plant {plan} in input {item.name}"


@mutation(Family.VALUES, "a small floating constant", weight=0.5)
def special_weight(draft: Draft) -> str:
    """Plant exceptional values in a weight."""
    one = pick.one(draft, draft.base.program.constants, "there are no constants")
    if not draft.users(one.id) or one.made is None or draft.tensor(one.id).numel > _MOST_CHANGED:
        raise Refused("the constant cannot be changed")
    plan = draft.rng.choice(_PLANS)
    recipe = _planned(draft, one.made, one.meta.dtype, plan)
    draft.allow_poison = True
    draft.change_constant(one.id, recipe)
    draft.plan = plan
    return f"plant {plan} in {one.name}"


@mutation(Family.VALUES, "an edge that carries a floating tensor", weight=1.5)
def special_activation(draft: Draft) -> str:
    """Plant exceptional values in a value right where an operator reads it."""
    user, source = pick.edge(draft, floating=True)
    found, plan = draft.tensor(source), draft.rng.choice(_PLANS)
    values = special_values(plan, found.meta.dtype)
    draft.allow_poison = True
    if found.numel > _MOST_CHANGED:
        raise Refused("the tensor is too large")
    seed, count = draft.rng.randrange(4), max(1, len(values))
    special = draft.constant(Planted(Made(0, "ground", -1.0, 1.0), seed, values, 1), (count,), found.meta.dtype)
    which = draft.constant(Whole(seed, "which", 0, count), found.shape, "int64")
    mask = draft.constant(Whole(seed, "where", 0, 2 if found.numel < 4 else 5), found.shape, "int64")
    chosen = draft.insert(user, "aten.index.Tensor", [special, [which]])
    there = draft.insert(user, "aten.eq.Scalar", [mask, 0])
    draft.redirect(user, source, draft.insert(user, "aten.where.self", [there, chosen, source]))
    draft.plan = plan
    return f"plant {plan} in %{int(source)} in front of node {user}"


def _planned(draft: Draft, ground: Recipe, dtype: str, plan: str) -> Recipe:
    if plan == "ties":
        if not dtype.startswith(("float", "bfloat")):
            raise Refused("whole numbers are tied as they are")
        return Whole(draft.rng.randrange(8), "ties", -2, 3)
    values = special_values(plan, dtype)
    if isinstance(ground, Planted):
        ground = ground.ground
    return Planted(ground, draft.rng.randrange(1 << 16), values, draft.rng.choice((3, 16, 64)))


@mutation(Family.VALUES, "an input with ordinary numbers", weight=0.7)
def other_inputs(draft: Draft) -> str:
    """Draw an input from another seed, or from a wider or narrower range."""
    inputs = [i for i in draft.base.program.inputs if isinstance(draft.example(i.id), Made)]
    item = pick.one(draft, inputs, "no input is drawn from a seed")
    old = draft.example(item.id)
    assert isinstance(old, Made)
    factor = draft.rng.choice((0.01, 0.5, 1.0, 4.0, 50.0))
    seed = draft.rng.randrange(1, 1 << 16)
    draft.change_input(item.id, Made(seed, old.stream, old.low * factor, old.high * factor))
    return f"draw input {item.name} from seed {seed}, scaled by {factor:g}"

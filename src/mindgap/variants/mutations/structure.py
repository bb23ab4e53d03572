"""Other graphs: branches doubled, edges rewired, parts of another real model grafted in."""

from __future__ import annotations

from typing import Final

from mindgap.program.graph import Ref
from mindgap.program.made import Made, Whole
from mindgap.variants import adapt, pick
from mindgap.variants.base import Base, is_frozen
from mindgap.variants.draft import Draft, renamed
from mindgap.variants.registry import Family, mutation
from mindgap.variants.rules import Refused
from mindgap.variants.values import Value
from mindgap.variants.walk import reads

_JOINS: Final = (
    "aten.add.Tensor", "aten.mul.Tensor", "aten.sub.Tensor", "aten.maximum.default", "aten.minimum.default",
    "aten.hypot.default", "aten.atan2.default", "aten.fmod.Tensor", "aten.copysign.Tensor", "aten.logaddexp.default",
)  # fmt: skip
_MOST_COPIED: Final = 1 << 16
"""Elements of a donor's constant that is taken over."""


@mutation(Family.STRUCTURE, "a node that gives a tensor")
def duplicate_branch(draft: Draft) -> str:
    """Compute a node twice and join the two results."""
    node = pick.tensor_node(draft)
    anchor = draft.before_users(node.id)
    twin = draft.insert(anchor, node.op, node.args, node.kwargs)
    join = draft.rng.choice(_JOINS)
    joined = adapt.fit(draft, anchor, draft.insert(anchor, join, [Ref(node.id), twin]), draft.tensor(node.id))
    draft.redirect_all(node.id, joined, keep=[twin, *range(int(twin), int(joined) + 1)])
    return f"compute node {node.id} twice and join with {join}"


@mutation(Family.STRUCTURE, "two tensors of one shape and dtype")
def rewire(draft: Draft) -> str:
    """Let a node read another value of the same shape and dtype."""
    user, source = pick.edge(draft)
    wanted = draft.tensor(source)
    for _ in range(12):
        other = draft.pick_node()
        found = draft.known(other.id)
        fits = isinstance(found, Value) and (found.shape, found.dtype) == (wanted.shape, wanted.dtype)
        if fits and other.id != source and draft.order(other.id) < draft.order(user):
            draft.redirect(user, source, other.id)
            return f"let node {user} read %{other.id} instead of %{int(source)}"
    raise Refused("no other value fits")


@mutation(Family.STRUCTURE, "a node that gives a tensor")
def return_intermediate(draft: Draft) -> str:
    """Return a value from inside the graph as one more output."""
    node = pick.tensor_node(draft)
    if draft.is_output(node.id):
        raise Refused("it is returned already")
    draft.add_output(node.id)
    return f"return node {node.id} as well"


@mutation(Family.STRUCTURE, "a donor with a part that reads floating tensors", weight=2.0)
def splice(draft: Draft) -> str:
    """Graft a few operators of another real model into an edge, with adapters for shape and dtype."""
    return _graft(draft, draft.rng.randrange(2, 8), add=draft.rng.random() < 0.5)


@mutation(Family.STRUCTURE, "a donor with a part that reads floating tensors", weight=0.5)
def cross(draft: Draft) -> str:
    """Cross two models: a large part of another one continues from a value of this one."""
    return _graft(draft, draft.rng.randrange(10, 30), add=False)


def _graft(draft: Draft, size: int, add: bool) -> str:
    donor = draft.donor
    if donor is None:
        raise Refused("there is no donor")
    user, source = pick.edge(draft, floating=True)
    target = draft.tensor(source)
    last = _donor_node(draft, donor)
    region = _region(donor, last, size)
    names: dict[int, int] = {}
    for node in (donor.program.nodes[index] for index in sorted(donor.position[i] for i in region)):
        for reference in reads(node):
            if reference not in names:
                names[reference] = _brought(draft, donor, reference, user, source)
        names[node.id] = draft.insert(user, node.op, *renamed(node, names))
    result = adapt.fit(draft, user, Ref(names[last]), target)
    if add:
        result = draft.insert(user, "aten.add.Tensor", [source, result])
    draft.redirect(user, source, result)
    return f"graft {len(region)} operators of {donor.name} up to node {last} in front of node {user}"


def _donor_node(draft: Draft, donor: Base) -> int:
    nodes = donor.program.nodes
    for _ in range(8):
        node = draft.rng.choice(nodes)
        found = donor.values[node.id]
        if isinstance(found, Value) and found.is_float and found.numel and not (is_frozen(node) or pick.writes(node)):
            return node.id
    raise Refused("the donor gives no floating tensor")


def _region(donor: Base, last: int, size: int) -> set[int]:
    """A node of the donor and what it is computed from, breadth first."""
    region: dict[int, None] = {}
    front = [last]
    while front and len(region) < size:
        current = front.pop(0)
        if current in region or current not in donor.position:
            continue
        node = donor.program.nodes[donor.position[current]]
        if donor.values[current] is None or pick.writes(node):
            continue
        region[current] = None
        front += reads(node)
    return set(region)


def _brought(draft: Draft, donor: Base, reference: int, anchor: int, source: Ref) -> Ref:
    """What stands for a value that the donor's part reads: its constant, or the value at the edge, adapted."""
    found = donor.values[reference]
    if not isinstance(found, Value):
        raise Refused("the donor's part reads what is not a tensor")
    constant = donor.constants.get(reference)
    if constant is not None and constant.made is not None and found.numel <= _MOST_COPIED:
        return draft.constant(constant.made, found.shape, found.meta.dtype)
    if found.numel > 4 * _MOST_COPIED:
        raise Refused("the donor's tensors are too large")
    if found.is_float:
        return adapt.fit(draft, anchor, source, found)
    if found.dtype.is_complex or found.numel > _MOST_COPIED:
        raise Refused("the donor's part reads what cannot be made")
    low, high = int(found.range.low), int(found.range.high)
    return draft.constant(Whole(0, "donor", low, high + 1), found.shape, found.meta.dtype)


@mutation(Family.STRUCTURE, "two constants of one shape and dtype", weight=0.5)
def share_weight(draft: Draft) -> str:
    """Let two layers share a weight, or draw a weight from another seed."""
    constants = draft.base.program.constants
    one = pick.one(draft, constants, "there are no constants")
    users = draft.users(one.id)
    if not users:
        raise Refused("the constant is not used any more")
    for _ in range(8):
        other = draft.rng.choice(constants)
        if other.id != one.id and other.meta == one.meta and draft.users(other.id):
            user = draft.rng.choice(list(users))
            draft.redirect(user, one.id, other.id)
            return f"let node {user} use {other.name} instead of {one.name}"
    if isinstance(one.made, Made) and draft.tensor(one.id).numel <= _MOST_COPIED:
        seed = one.made.seed + draft.rng.randrange(1, 8)
        draft.change_constant(one.id, Made(seed, one.made.stream, one.made.low, one.made.high))
        return f"draw {one.name} from seed {seed}"
    raise Refused("no other constant fits")

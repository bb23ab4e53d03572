"""Other literals: numbers, switches, dimensions, sizes of windows."""

from __future__ import annotations

from typing import Any, Final

from mindgap.program.graph import Argument, Node
from mindgap.program.operators import traits
from mindgap.variants import pick
from mindgap.variants.base import is_frozen
from mindgap.variants.catalogue import Parameter, is_fixed, signature
from mindgap.variants.draft import Draft
from mindgap.variants.fill import SCALARS, SMALL, STRINGS
from mindgap.variants.registry import Family, mutation
from mindgap.variants.rules import Refused
from mindgap.variants.values import Value
from mindgap.variants.walk import reads

_REDUCTIONS: Final = ("dim", "dims", "axis")


def _given(node: Node) -> list[tuple[Parameter, Argument]]:
    """The parameters of a node that hold literals, with what they hold; defaults count as given."""
    known = signature(node.op)
    if known is None:
        return []
    found = []
    for index, parameter in enumerate(known.parameters):
        if is_fixed(parameter.name) or parameter.plain in ("Tensor", "List[Tensor]") or parameter.name == "dtype":
            continue
        default = parameter.default
        held = node.args[index] if index < len(node.args) else node.kwargs.get(parameter.name, default)
        found.append((parameter, held))
    return found


def with_literal(node: Node, name: str, literal: Argument) -> tuple[list[Argument], dict[str, Argument]]:
    """The node's arguments with one literal changed."""
    known = signature(node.op)
    assert known is not None
    index = [parameter.name for parameter in known.parameters].index(name)
    args, kwargs = list(node.args), dict(node.kwargs)
    if index < len(args):
        args[index] = literal
    else:
        kwargs[name] = literal
    return args, kwargs


def pick_literal(draft: Draft, names: tuple[str, ...] = ()) -> tuple[Node, Parameter, Argument]:
    """A node and one of its literals."""
    for _ in range(8):
        node = draft.pick_node()
        if is_frozen(node) or pick.writes(node):
            continue
        options = [(p, held) for p, held in _given(node) if not names or p.name in names]
        if options:
            return (node, *draft.rng.choice(options))
    raise Refused("no node has such a literal")


def _rank(draft: Draft, node: Node) -> int:
    found = [draft.known(reference) for reference in reads(node)]
    return next((item.rank for item in found if isinstance(item, Value)), 1)


@mutation(Family.ARGUMENTS, "a node with a literal argument", weight=3.0)
def change_literal(draft: Draft) -> str:
    """Change one scalar argument or attribute of an operator: stride, eps, keepdim, rounding_mode, correction."""
    node, parameter, held = pick_literal(draft)
    names = dict(traits(node.op).codes).get(parameter.name)
    if names is None:
        fresh = _other(draft, parameter, held, max(1, _rank(draft, node)))
    else:
        fresh = draft.rng.randrange(names)
    if fresh == held and type(fresh) is type(held):
        raise Refused("the literal is the same")
    draft.change(node.id, node.op, *with_literal(node, parameter.name, fresh))
    return f"change {parameter.name} of {node.op} from {held!r} to {fresh!r} at node {node.id}"


@mutation(Family.ARGUMENTS, "a node that works along dimensions")
def change_dimension(draft: Draft) -> str:
    """Reduce, normalise or join along other dimensions."""
    node, parameter, held = pick_literal(draft, _REDUCTIONS)
    rank = _rank(draft, node)
    if not rank:
        raise Refused("a scalar has no dimensions")
    if isinstance(held, list | tuple):
        fresh: Argument = draft.rng.sample(range(rank), draft.rng.randrange(1, rank + 1))
    elif isinstance(held, int):
        fresh = draft.rng.randrange(-rank, rank)
    else:
        raise Refused("the operator works along all dimensions")
    if fresh == held:
        raise Refused("the dimensions are the same")
    draft.change(node.id, node.op, *with_literal(node, parameter.name, fresh))
    return f"change {parameter.name} of {node.op} from {held!r} to {fresh!r} at node {node.id}"


def _other(draft: Draft, parameter: Parameter, held: Any, rank: int) -> Argument:
    rng, name, plain = draft.rng, parameter.name, parameter.plain
    if isinstance(held, bool) or plain == "bool":
        return not held
    if plain == "str":
        options = [item for item in STRINGS.get(name, ()) if item != held]
        if parameter.optional:
            options.append(None)  # type: ignore[arg-type]
        if not options:
            raise Refused(f"no other {name} is known")
        return rng.choice(options)
    if isinstance(held, list | tuple) and held and all(type(item) is int for item in held):
        return _other_sizes(draft, name, list(held))
    if "dim" in name and isinstance(held, int):
        return rng.randrange(-rank, rank)
    if plain == "float":
        return rng.choice(SMALL if "eps" in name else SCALARS)
    if isinstance(held, float) or plain == "number":
        return rng.choice(SCALARS) if rng.random() < 0.7 else rng.choice((1, 2, 0, -1, 3))
    if isinstance(held, int):
        return held + rng.choice((-1, 1, 2))
    raise Refused(f"{name} cannot be changed")


def _other_sizes(draft: Draft, name: str, held: list[int]) -> list[int]:
    rng = draft.rng
    if name in ("size", "shape", "split_sizes", "sizes") or name in ("dims",):
        rng.shuffle(held)
    else:
        index = rng.randrange(len(held))
        held[index] = max(0, held[index] + rng.choice((-1, 1, 2)))
        if rng.random() < 0.5:
            held = [held[index]] * len(held)
    return held

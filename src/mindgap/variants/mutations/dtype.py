"""Other element types, with casts around."""

from __future__ import annotations

from typing import Final

from mindgap.program.graph import Node, Ref
from mindgap.records.tensors import DTYPES
from mindgap.variants import adapt, pick
from mindgap.variants.draft import Draft, renamed
from mindgap.variants.order import END
from mindgap.variants.registry import Family, mutation
from mindgap.variants.rules import Refused
from mindgap.variants.values import Value
from mindgap.variants.walk import reads

_FLOATING: Final = ("float16", "bfloat16", "float64", "float32")
_WHOLE: Final = ("int8", "int16", "int32", "int64", "uint8", "bool")


def _choose(draft: Draft, options: tuple[str, ...], other_than: str) -> str:
    return draft.rng.choice([name for name in options if name != other_than])


@mutation(Family.DTYPE, "a node that gives a floating tensor", weight=2.0)
def compute_in(draft: Draft) -> str:
    """Compute one operator in float16, bfloat16, float64 or float32: its operands are cast, and its result back."""
    node = pick.tensor_node(draft, floating=True)
    return _compute_in(draft, node, _choose(draft, _FLOATING, draft.tensor(node.id).meta.dtype))


@mutation(Family.DTYPE, "a node that gives a tensor")
def compute_in_whole_numbers(draft: Draft) -> str:
    """Compute one operator in int8 to int64, uint8 or bool."""
    node = pick.tensor_node(draft)
    return _compute_in(draft, node, _choose(draft, _WHOLE, draft.tensor(node.id).meta.dtype))


@mutation(Family.DTYPE, "a node that gives a floating tensor", weight=0.5)
def compute_in_complex(draft: Draft) -> str:
    """Compute one operator in complex numbers; the real part goes on."""
    node = pick.tensor_node(draft, floating=True)
    return _compute_in(draft, node, draft.rng.choice(("complex64", "complex128")))


def _compute_in(draft: Draft, node: Node, dtype: str) -> str:
    target = draft.tensor(node.id)
    known = [(reference, draft.known(reference)) for reference in reads(node)]
    moved = [reference for reference, found in known if isinstance(found, Value) and found.dtype == target.dtype]
    if not moved:
        raise Refused("the node reads no tensor of its own dtype")
    casts = {reference: adapt.cast(draft, node.id, Ref(reference), dtype) for reference in moved}
    fresh = draft.insert(node.id, node.op, *renamed(node, casts))
    draft.redirect_all(node.id, adapt.fit(draft, node.id, fresh, target))
    draft.sweep(node.id)
    return f"compute {node.op} in {dtype} at node {node.id}"


@mutation(Family.DTYPE, "an edge that carries a floating tensor")
def round_trip_cast(draft: Draft) -> str:
    """Round a value through a smaller type: cast down and up again."""
    user, source = pick.edge(draft, floating=True)
    name = draft.tensor(source).meta.dtype
    dtype = _choose(draft, ("float16", "bfloat16", "int32", "int8", "float8_e4m3fn", "float8_e5m2"), name)
    if dtype not in DTYPES:
        raise Refused(f"this torch has no {dtype}")
    low = adapt.cast(draft, user, source, dtype)
    draft.redirect(user, source, adapt.cast(draft, user, low, name))
    return f"round %{int(source)} through {dtype} in front of node {user}"


@mutation(Family.DTYPE, "an output that is a floating tensor", weight=0.5)
def return_in(draft: Draft) -> str:
    """Return an output in another dtype."""
    source = pick.output(draft, lambda found: found.is_float, "no output is floating")
    dtype = _choose(draft, (*_FLOATING, "int32", "uint8"), draft.tensor(source).meta.dtype)
    draft.replace_output(source, adapt.cast(draft, END, source, dtype))
    return f"return %{int(source)} in {dtype}"

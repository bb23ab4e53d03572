"""Other element types, with casts around."""

from __future__ import annotations

from typing import Final

from mindgap.program.graph import Ref
from mindgap.records.tensors import DTYPES
from mindgap.variants import adapt, pick
from mindgap.variants.draft import Draft, renamed
from mindgap.variants.order import END
from mindgap.variants.registry import Family, mutation
from mindgap.variants.rules import Refused
from mindgap.variants.values import Value
from mindgap.variants.walk import reads

FLOATING: Final = ("float16", "bfloat16", "float64", "float32")
WHOLE: Final = ("int8", "int16", "int32", "int64", "uint8", "bool")
COMPLEX: Final = ("complex64", "complex128")
_LOWER: Final = ("float16", "bfloat16")


def _choose(draft: Draft, options: tuple[str, ...], other_than: str) -> str:
    return draft.rng.choice([name for name in options if name != other_than])


@mutation(Family.DTYPE, "a node that gives a floating tensor", weight=2.0)
def compute_in(draft: Draft) -> str:
    """Compute one operator in float16, bfloat16, float64 or float32: its operands are cast, and its result back."""
    node = pick.tensor_node(draft, floating=True)
    target = draft.tensor(node.id)
    dtype = _choose(draft, FLOATING, target.meta.dtype)
    return f"compute {node.op} in {dtype} at node {_cast_around(draft, node.id, dtype)}"


@mutation(Family.DTYPE, "a node that gives a tensor")
def compute_in_whole_numbers(draft: Draft) -> str:
    """Compute one operator in int8 to int64, uint8 or bool."""
    node = pick.tensor_node(draft)
    dtype = _choose(draft, WHOLE, draft.tensor(node.id).meta.dtype)
    return f"compute {node.op} in {dtype} at node {_cast_around(draft, node.id, dtype)}"


@mutation(Family.DTYPE, "a node that gives a floating tensor", weight=0.5)
def compute_in_complex(draft: Draft) -> str:
    """Compute one operator in complex numbers; the real part goes on."""
    node = pick.tensor_node(draft, floating=True)
    dtype = draft.rng.choice(COMPLEX)
    return f"compute {node.op} in {dtype} at node {_cast_around(draft, node.id, dtype)}"


def _cast_around(draft: Draft, identity: int, dtype: str) -> int:
    node = draft.node(identity)
    assert node is not None
    target = draft.tensor(identity)
    moved = [r for r in reads(node) if _computes(draft, r, target)]
    if not moved:
        raise Refused("the node reads no tensor of its own dtype")
    casts = {reference: adapt.cast(draft, identity, Ref(reference), dtype) for reference in moved}
    args, kwargs = renamed(node, casts)
    fresh = draft.insert(identity, node.op, args, kwargs)
    draft.redirect_all(identity, adapt.fit(draft, identity, fresh, target))
    draft.sweep(identity)
    return identity


def _computes(draft: Draft, reference: int, target: Value) -> bool:
    found = draft.known(reference)
    return isinstance(found, Value) and found.is_float == target.is_float and found.dtype == target.dtype


@mutation(Family.DTYPE, "an edge that carries a floating tensor")
def round_trip_cast(draft: Draft) -> str:
    """Round a value through a smaller type: cast down and up again."""
    user, source = pick.edge(draft, floating=True)
    name = draft.tensor(source).meta.dtype
    dtype = _choose(draft, (*_LOWER, "int32", "int8", "float8_e4m3fn", "float8_e5m2"), name)
    if dtype not in DTYPES:
        raise Refused(f"this torch has no {dtype}")
    low = adapt.cast(draft, user, source, dtype)
    draft.redirect(user, source, adapt.cast(draft, user, low, name))
    return f"round %{int(source)} through {dtype} in front of node {user}"


@mutation(Family.DTYPE, "an output that is a floating tensor", weight=0.5)
def return_in(draft: Draft) -> str:
    """Return an output in another dtype."""
    outputs = [i for i in sorted(draft.output_ids()) if _is_float(draft, i)]
    if not outputs:
        raise Refused("no output is floating")
    source = Ref(draft.rng.choice(outputs))
    dtype = _choose(draft, (*FLOATING, "int32", "uint8"), draft.tensor(source).meta.dtype)
    draft.replace_output(source, adapt.cast(draft, END, source, dtype))
    return f"return %{int(source)} in {dtype}"


def _is_float(draft: Draft, identity: int) -> bool:
    found = draft.known(identity)
    return isinstance(found, Value) and found.is_float

"""Other operators: replaced, inserted on an edge, appended, deleted, with swapped operands."""

from __future__ import annotations

from typing import Final

from mindgap.program.graph import Ref
from mindgap.variants import adapt, pick
from mindgap.variants.base import is_frozen
from mindgap.variants.draft import Draft
from mindgap.variants.fill import emit
from mindgap.variants.order import END
from mindgap.variants.registry import Family, mutation
from mindgap.variants.rules import Refused
from mindgap.variants.values import Value
from mindgap.variants.walk import reads

_TRIES: Final = 3


@mutation(Family.OPERATORS, "a node that gives one tensor and writes to none", weight=3.0)
def replace_operator(draft: Draft) -> str:
    """Replace an operator by another that takes as many tensors; adapters restore shape and dtype."""
    node = pick.tensor_node(draft)
    target = draft.tensor(node.id)
    operands = [Ref(r) for r in reads(node) if isinstance(draft.known(r), Value)]
    if not operands:
        raise Refused("the node reads no tensor")
    op = pick.operator(draft, min(2, len(operands)))
    fresh = emit(draft, node.id, op, operands)
    draft.redirect_all(node.id, adapt.fit(draft, node.id, fresh, target))
    draft.sweep(node.id)
    return f"replace {node.op} by {op} at node {node.id}"


@mutation(Family.OPERATORS, "an edge that carries a tensor", weight=4.0)
def insert_operator(draft: Draft) -> str:
    """Insert an operator on an edge; adapters restore shape and dtype."""
    user, source = pick.edge(draft)
    target = draft.tensor(source)
    refusal = Refused("")
    op = pick.operator(draft)
    for _ in range(_TRIES):
        try:
            fresh = emit(draft, user, op, [source])
            break
        except Refused as error:
            refusal = error
    else:
        raise refusal
    draft.redirect(user, source, adapt.fit(draft, user, fresh, target))
    return f"insert {op} between %{int(source)} and node {user}"


@mutation(Family.OPERATORS, "a node whose result has the shape and dtype of an argument")
def delete_operator(draft: Draft) -> str:
    """Remove an operator; its users read its argument instead."""
    for _ in range(8):
        node = pick.tensor_node(draft)
        own = draft.tensor(node.id)
        for reference in reads(node):
            found = draft.known(reference)
            if isinstance(found, Value) and (found.shape, found.dtype) == (own.shape, own.dtype):
                draft.redirect_all(node.id, reference)
                draft.sweep(node.id)
                return f"delete {node.op} at node {node.id}"
    raise Refused("no node keeps shape and dtype")


@mutation(Family.OPERATORS, "a node that reads two tensors")
def swap_operands(draft: Draft) -> str:
    """Swap the first two operands of a node."""
    for _ in range(8):
        node = draft.pick_node()
        if is_frozen(node) or pick.writes(node) or len(node.args) < 2:
            continue
        first, second = node.args[:2]
        if type(first) is Ref and type(second) is Ref and first != second:
            draft.change(node.id, node.op, (second, first, *node.args[2:]), node.kwargs)
            return f"swap the operands of {node.op} at node {node.id}"
    raise Refused("no node reads two tensors")


@mutation(Family.OPERATORS, "an output that is a tensor")
def append_operator(draft: Draft) -> str:
    """Apply an operator to an output of the program, without adapters: what it gives is returned."""
    source = pick.output(draft, lambda found: True, "the program returns no tensor")
    op = pick.operator(draft)
    fresh = emit(draft, END, op, [source])
    draft.replace_output(source, fresh)
    return f"append {op} to output %{int(source)}"

"""What the tensor arguments of a call are for: their dtype need not be that of the numbers it computes with."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from mindgap.program import ops
from mindgap.program.graph import Node, Program, Ref, leaves
from mindgap.program.operators import traits

NAMES: Final[Mapping[str, tuple[str, ...]]] = {
    "index": ("index", "indices"),
    "mask": ("mask", "condition", "attn_mask"),
    "weight": ("weight", "bias", "running_mean", "running_var"),
}
"""Names of arguments in torch's schemas, by role."""
_BESIDE: Final = (*NAMES["index"], *NAMES["mask"])
"""Arguments that never carry the numbers of a call."""


def takes_role(op: str, role: str) -> bool:
    """Whether the operator has an argument in a role, beside the one that it computes with."""
    return any(argument.name in NAMES[role] for argument in ops.arguments_of(op))


def arguments_in(program: Program, role: str) -> set[int]:
    """What the one call of a program reads in a role."""
    return {ref for name, ref in _read(program) if name in NAMES[role]}


def main_dtype(program: Program) -> str:
    """The dtype that the one call of a program computes with: of its first tensor that is no index and no mask."""
    metas = {item.id: item.meta for item in program.given()}
    read = list(_read(program))
    main = next((ref for name, ref in read if name not in _BESIDE), read[0][1] if read else None)
    return metas[main].dtype if main is not None else ""


def must_ascend(nodes: Iterable[Node]) -> set[int]:
    """What some of these calls read as an argument whose elements must not decrease."""
    named = ((node, traits(node.op).ascending) for node in nodes)
    return {ref for node, names in named if names for name, ref in _read_by(node) if name in names}


def _read(program: Program) -> Iterator[tuple[str, int]]:
    """Tensors of the one call of a program."""
    return _read_by(program.nodes[0])


def _read_by(node: Node) -> Iterator[tuple[str, int]]:
    """Tensors of a call with the names of their arguments, in the order of the schema."""
    for position, argument in enumerate(ops.arguments_of(node.op)):
        given = node.args[position] if position < len(node.args) else node.kwargs.get(argument.name)
        yield from ((argument.name, int(leaf)) for _, leaf in leaves(given) if type(leaf) is Ref)

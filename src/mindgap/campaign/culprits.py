"""The operator at fault in a fragment: all its results are returned, so the first wrong one names it."""

from __future__ import annotations

from collections.abc import Collection

from mindgap.program import ops
from mindgap.program.graph import Node, Program, Ref, leaves
from mindgap.program.operators import traits


def culprit(program: Program, wrong: Collection[str]) -> str:
    """The operator whose result is the first to be wrong; empty where that is not certain.

    A result that is overwritten later shows the last write. Memory that several operators computed in turn names none
    of them: tracing takes it apart.
    """
    computing = [node for node in program.nodes if not _passes_on(node)]
    if len(computing) == 1:
        return computing[0].op
    memory = _Memory(program)
    names = {f"input:{item.name}": item.id for item in program.inputs}
    names |= {name: int(leaf) for name, leaf in program.output_leaves() if isinstance(leaf, Ref)}
    makers = [memory.makers(names[name]) for name in wrong if name in names]
    if not makers or not all(makers):
        return ""
    first = min(makers, key=lambda nodes: memory.position[nodes[-1].id])
    return first[0].op if len(first) == 1 else ""


class _Memory:
    """Which values share memory, and which operators computed what it holds in the end."""

    def __init__(self, program: Program) -> None:
        self.position = {node.id: place for place, node in enumerate(program.nodes)}
        self._nodes = program.nodes
        self._root: dict[int, int] = {}
        for node in program.nodes:
            shared = ops.aliased_arguments(node.op)
            for place, argument in (*enumerate(node.args), *node.kwargs.items()):
                if place in shared:
                    for _, leaf in leaves(argument):
                        if isinstance(leaf, Ref):
                            self._root[self._find(int(leaf))] = self._find(node.id)

    def makers(self, identity: int) -> list[Node]:
        """In order; operators that only pass values on are left out."""
        root = self._find(identity)
        return [node for node in self._nodes if self._find(node.id) == root and not _passes_on(node)]

    def _find(self, identity: int) -> int:
        while self._root.get(identity, identity) != identity:
            identity = self._root[identity]
        return identity


def _passes_on(node: Node) -> bool:
    """Whether a node only gives what it is given: a view, or one of several results."""
    return node.op == "operator.getitem" or (traits(node.op).view and not ops.mutated_arguments(node.op))

"""Crowds: many programs side by side in one, so that one export, one conversion and one compilation serve all."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import torch

from mindgap.program.case import Case
from mindgap.program.graph import Argument, Input, Node, Program, Ref, changed_leaves, leaves, map_leaves
from mindgap.records.tensors import NamedTensor

T = TypeVar("T")


@dataclass(frozen=True)
class Crowd:
    """Many cases as one, and what each of them owns in it."""

    case: Case
    names: tuple[Mapping[str, str], ...]
    """By member: the name of an output (or of an input that it changes) in the crowd, and its own name for it."""

    def on(self, members: Sequence[Case]) -> Case:
        """The same program on the inputs of other members that have the structure of those it was made of."""
        return self.case.with_program(self.case.graph, [tensor for member in members for tensor in member.tensors])

    def split(self, outputs: Sequence[NamedTensor]) -> list[list[NamedTensor]]:
        """What each member gave, under the names that it gives alone."""
        return [[replace(item, name=own[item.name]) for item in outputs if item.name in own] for own in self.names]


def crowd_of(members: Sequence[Case], name: str = "crowd") -> Crowd:
    """The members in one program; none reads what another one writes, as inputs stay apart."""
    inputs: list[Input] = []
    tensors: list[torch.Tensor] = []
    constants = {c.digest: (c, t) for w in members for c, t in zip(w.graph.constants, w.used_constants())}
    places = {identity: number for number, identity in enumerate(constants)}
    nodes: list[Node] = []
    outputs: list[Argument] = []
    names: list[dict[str, str]] = []
    count = len(constants)
    for number, member in enumerate(members):
        program = member.graph
        new = {c.id: places[c.digest] for c in program.constants}
        for identity in (*(item.id for item in program.inputs), *(node.id for node in program.nodes)):
            new[identity] = count
            count += 1

        def renumber(leaf: Any, new: Mapping[int, int] = new) -> Any:
            return Ref(new[int(leaf)]) if isinstance(leaf, Ref) else leaf

        mine = [replace(item, id=new[item.id], name=f"p{number}_{item.name}") for item in program.inputs]
        inputs += mine
        tensors += member.tensors
        nodes += [replace(changed_leaves(node, renumber), id=new[node.id]) for node in program.nodes]
        results = list(leaves(program.outputs))
        own = {f"[{place}]": path or "output" for place, (path, _) in enumerate(results, start=len(outputs))}
        names.append(own | {f"input:{i.name}": f"input:{o.name}" for i, o in zip(mine, program.inputs)})
        outputs += [map_leaves(leaf, renumber) for _, leaf in results]
    whole = Program(
        name,
        tuple(inputs),
        tuple(replace(constant, id=places[identity]) for identity, (constant, _) in constants.items()),
        tuple(nodes),
        tuple(outputs),
    )
    case = Case.of(whole, {d: t for d, (_, t) in constants.items()}, tuple(tensors), members[0].seed)
    return Crowd(case, tuple(names))


def halves(members: Sequence[T]) -> tuple[Sequence[T], Sequence[T]]:
    """Two parts of the same size."""
    middle = len(members) // 2
    return members[:middle], members[middle:]


def by_halves(
    members: Sequence[T],
    settle: Callable[[Sequence[T]], bool],
    part: Callable[[Sequence[T]], tuple[Sequence[T], Sequence[T]]] = halves,
) -> None:
    """All members in one crowd; a crowd that could not be settled is tried again in two parts.

    A single member must be settled: then the guilty one is alone. Whoever knows more about it says how to `part` them.
    """
    if members and not settle(members):
        for some in part(members):
            by_halves(some, settle, part)

"""What flows along the edges of a program when eager runs it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from typing import Final

from mindgap.errors import ProgramError
from mindgap.program import ops
from mindgap.program.case import Case
from mindgap.program.graph import Node, Program, Ref
from mindgap.records.outcome import Outcome
from mindgap.records.tensors import NamedTensor, TensorMeta, with_stride
from mindgap.tracing.extract import Value, is_tensor, needed_nodes, needs, writes

Run = Callable[[Case], Outcome]
"""Runs a witness on eager."""

CLONE: Final = "aten.clone.default"


def capture(run: Run, witness: Case, parts: Sequence[Collection[int]]) -> list[dict[int, Value]]:
    """For each part of the program, the values that it needs as they are just before its first node."""
    program = witness.graph
    given = {item.id: tensor for item, tensor in zip(program.inputs, witness.tensors)}
    plan = _Plan(program)
    wanted = [{identity: plan.key(identity, part) for identity in needs(program, part)} for part in parts]
    keys = {key for row in wanted for key in row.values()}
    known: dict[tuple[int, int], Value] = {key: given[key[0]] for key in keys if key[1] == 0 and key[0] in given}
    missing = sorted(keys - set(known))
    if missing:
        outcome = run(witness.with_program(plan.exposing(missing)))
        if not outcome.ok:
            raise ProgramError("the program fails when its intermediate values are exposed", cause=outcome.message)
        shown = {item.name: item for item in outcome.outputs}
        known |= {key: plan.value(key, shown[f"[{place}]"]) for place, key in enumerate(missing)}
    return [{identity: known[key] for identity, key in row.items()} for row in wanted]


class _Plan:
    """Which values to show, and when: an in-place operator changes what was there before."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.nodes = {node.id: node for node in program.nodes}
        self.places = {node.id: place for place, node in enumerate(program.nodes)}
        self.versions = [0]
        """For each place, how many writes came before it."""
        for node in program.nodes:
            self.versions.append(self.versions[-1] + bool(ops.mutated_arguments(node.op)))

    def key(self, identity: int, part: Collection[int]) -> tuple[int, int]:
        """A value and its time, counted in writes: before the part's first node, or when it first exists."""
        first = min(self.places[member] for member in part)
        made = self.places.get(identity, -1) + 1
        return identity, self.versions[max(first, made)]

    def exposing(self, keys: Sequence[tuple[int, int]]) -> Program:
        """The program with these values as its outputs; where something is written, copies at the right time."""
        program = self.program
        if not writes(program):
            kept = needed_nodes(program, [identity for identity, _ in keys])
            nodes = [node for node in program.nodes if node.id in kept]
            outputs = tuple(Ref(identity) for identity, _ in keys)
            return replace(program, nodes=tuple(nodes), outputs=outputs, example=())
        fresh = max((item.id for item in (*program.given(), *program.nodes)), default=0) + 1
        copies = {key: fresh + number for number, key in enumerate(keys)}
        due: dict[int, list[tuple[int, int]]] = {}
        for key in keys:
            due.setdefault(self._first_place(key), []).append(key)
        nodes = []
        last = max(due)  # what comes later may be what eager refuses
        for place in range(last + 1):
            nodes += [Node(copies[key], CLONE, (Ref(key[0]),)) for key in due.get(place, ())]
            nodes += program.nodes[place : min(place + 1, last)]
        outputs = tuple(Ref(copies[key]) for key in keys)
        return replace(program, nodes=tuple(nodes), outputs=outputs, example=())

    def _first_place(self, key: tuple[int, int]) -> int:
        """The first index at which this version of a value exists."""
        identity, version = key
        return max(self.versions.index(version), self.places.get(identity, -1) + 1)

    def value(self, key: tuple[int, int], item: NamedTensor) -> Value:
        """A captured value in its own layout; a number where the node gives one."""
        node = self.nodes.get(key[0])
        if node is not None and not is_tensor(node):
            number: Value = item.tensor.item()
            return number
        stride = item.stride
        if node is not None and isinstance(node.meta, TensorMeta) and writes(self.program):
            stride = node.meta.stride  # a copy may have another layout than the value itself
        if stride is None or tuple(item.tensor.stride()) == stride or len(stride) != item.tensor.dim():
            return item.tensor
        return with_stride(item.tensor, stride)

"""Which operator a divergence begins at: programs are cut ever shorter while they still diverge."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final, Protocol

from mindgap.execution.batch import Job
from mindgap.program.graph import Program, Ref, leaves, references
from mindgap.records.tensors import TensorMeta

Diverges = Callable[[Sequence[Program]], list[bool]]
"""Asks which of these programs still diverge; many at once, because one request for many is cheap."""

MOST_OUTPUTS: Final = 64
"""Values that a cut program gives back; only very wide graphs have more alive at one place."""


class Tracer(Protocol):
    """Says where a divergence begins; the precise tracing of `mindgap explain` can take this place."""

    def can_trace(self, platform: str) -> bool: ...

    def suspects(self, platform: str, jobs: Sequence[Job]) -> list[str | None]:
        """For each program that diverges on the platform: the operator to look at, or None."""


def first_diverging(programs: Sequence[Program], diverges: Diverges) -> list[str | None]:
    """The operator after which each program first diverges; None for a program that does not when it is cut.

    All programs are halved together: a program of n operators needs log2(n) requests, however many there are.
    """
    low = [0] * len(programs)
    high = [len(program.nodes) for program in programs]
    live = _ask(programs, dict(enumerate(high)), diverges)
    open_ = [number for number, found in live.items() if found]
    while any(high[number] - low[number] > 1 for number in open_):
        middles = {n: (low[n] + high[n]) // 2 for n in open_ if high[n] - low[n] > 1}
        for number, found in _ask(programs, middles, diverges).items():
            if found:
                high[number] = middles[number]
            else:
                low[number] = middles[number]
    return [programs[n].nodes[high[n] - 1].op if n in set(open_) else None for n in range(len(programs))]


def _ask(programs: Sequence[Program], lengths: dict[int, int], diverges: Diverges) -> dict[int, bool]:
    cuts = {number: cut(programs[number], length) for number, length in lengths.items()}
    possible = {number: program for number, program in cuts.items() if program is not None}
    answers = dict(zip(possible, diverges(list(possible.values())))) if possible else {}
    return {number: answers.get(number, False) for number in lengths}


def cut(program: Program, length: int) -> Program | None:
    """The first operators of a program, giving back every value that the rest would have used."""
    nodes = program.nodes[:length]
    if not nodes:
        return None
    made = {node.id: node.meta for node in nodes}
    wanted = [int(leaf) for _, leaf in leaves(program.outputs) if isinstance(leaf, Ref)]
    for node in program.nodes[length:]:
        wanted.extend(references(node))
    alive = [n for n in dict.fromkeys([nodes[-1].id, *wanted]) if isinstance(made.get(n), TensorMeta)]
    if not alive:
        return None
    kept = {identity for node in nodes for identity in references(node)}
    constants = tuple(constant for constant in program.constants if constant.id in kept)
    outputs = tuple(Ref(identity) for identity in alive[:MOST_OUTPUTS])
    return replace(program, nodes=nodes, constants=constants, outputs=outputs)

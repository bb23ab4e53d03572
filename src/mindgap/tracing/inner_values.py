"""The error inside the program: every inner value of the platform's own run, shown as an output."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, field, replace
from typing import Final

from mindgap.program.case import Case
from mindgap.program.graph import Node, Program, Ref, leaves, references
from mindgap.records.tensors import TensorMeta
from mindgap.records.verdict import Conclusion
from mindgap.tracing.alone import windows
from mindgap.tracing.capture import CLONE
from mindgap.tracing.examine import Examiner
from mindgap.tracing.extract import is_access, is_tensor, units
from mindgap.verdicts.comparison import Comparison

NOISE_RUNS: Final = 1
"""Errors are only followed here; whether something is wrong was decided before, from all runs."""

SAMPLE: Final = 24
"""Values behind a culprit that show how its error grows."""

VIEW: Final = "aten.view.default"


@dataclass(frozen=True)
class InnerValues:
    """What the inner values of a run show; `problem` says why they say nothing."""

    comparisons: dict[int, Comparison] = field(default_factory=dict)
    """By node id; a node that is missing was not shown."""
    problem: str = ""


def inner_values(
    examiner: Examiner,
    witness: Case,
    wanted: Collection[int],
    tell: Callable[[str], None] = lambda what: None,
) -> InnerValues:
    """Windows of the wanted inner values from the first on, until one holds the first value that is wrong.

    Showing a value may keep a compiler from fusing it away, and with that remove the difference: then nothing
    that was seen counts.
    """
    program = witness.graph
    found: dict[int, Comparison] = {}
    for window in windows(program, units(program)):
        here = {member for part in window for member in part} & set(wanted)
        members = [node.id for node in program.nodes if is_tensor(node) and node.id in here]
        if not members:
            continue
        tell(f"inner values of {len(members)} operators")
        shown, count = showing(program, members)
        seen = examiner.examine(witness.with_program(shown), noise_runs=NOISE_RUNS)
        if not seen.both_ran:
            return InnerValues({}, f"exposing intermediate values makes it fail: {seen.candidate.message}")
        kept = [seen.comparisons.get(f"[{place}]") for place in range(len(members), len(members) + count)]
        changed = [item for name, item in seen.comparisons.items() if name.startswith("input:")]
        if not any(item and item.conclusion is Conclusion.DIVERGES for item in (*kept, *changed)):
            return InnerValues(
                {}, "exposing intermediate values removes the difference: fused operators behave differently"
            )
        shown_here = {identity: seen.comparisons[f"[{place}]"] for place, identity in enumerate(members)}
        found |= shown_here
        if any(item.conclusion is Conclusion.DIVERGES for item in shown_here.values()):
            break
    return InnerValues(found)


def worth_showing(program: Program, culprits: Collection[int]) -> set[int]:
    """What the suspects read and give, and some values behind them."""
    nodes = {node.id: node for node in program.nodes}
    near = set(culprits) | {r for culprit in culprits for r in references(nodes[culprit])}
    first = min(place for place, node in enumerate(program.nodes) if node.id in culprits)
    behind = [node.id for node in program.nodes[first + 1 :]]
    accesses = {node.id for node in program.nodes if is_access(node) and near & set(references(node))}
    return near | accesses | set(behind[:4]) | set(behind[:: max(1, len(behind) // SAMPLE)]) | set(behind[-1:])


def showing(program: Program, members: list[int]) -> tuple[Program, int]:
    """The program with these values before its own outputs, and how many its own are.

    A value is copied at once, before somebody writes to it; and the copy is viewed in its own shape, because a
    converter may take a copy, or a dropout that drops nothing, for the value itself and refuse to return it twice.
    """
    own = [leaf for _, leaf in leaves(program.outputs) if isinstance(leaf, Ref)]
    fresh = max((item.id for item in (*program.given(), *program.nodes)), default=0) + 1
    shown = {identity: fresh + 2 * number for number, identity in enumerate(members)}
    nodes: list[Node] = []
    for node in program.nodes:
        nodes.append(node)
        if node.id in shown:
            assert isinstance(node.meta, TensorMeta)
            view = shown[node.id]
            nodes.append(Node(view + 1, CLONE, (Ref(node.id),), meta=node.meta))
            nodes.append(Node(view, VIEW, (Ref(view + 1), list(node.meta.shape)), meta=node.meta))
    outputs = (*(Ref(shown[identity]) for identity in members), *own)
    return replace(program, nodes=tuple(nodes), outputs=outputs, example=()), len(own)

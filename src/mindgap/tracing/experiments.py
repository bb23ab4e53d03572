"""Variations of a witness: what makes the difference go away says what causes it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import torch

from mindgap.program import ops
from mindgap.program.case import Case
from mindgap.program.crowd import crowd_of
from mindgap.program.graph import Node, Ref, changed_leaves, references
from mindgap.program.operators import traits
from mindgap.records.tensors import DTYPES, TensorMeta, with_stride
from mindgap.records.verdict import Conclusion
from mindgap.tracing.capture import CLONE
from mindgap.tracing.examine import Examiner, Symptom
from mindgap.tracing.extract import is_tensor
from mindgap.tracing.inner_values import showing
from mindgap.tracing.metas import with_metas

MODERATE: Final = 8.0
"""Values up to here overflow in no operator that is not made to."""


@dataclass(frozen=True, slots=True)
class Experiment:
    """One variation and what it would show."""

    name: str
    """As in `vanishes when ...`."""
    change: Callable[[Case], Case | None]
    """None where there is nothing to change."""


@dataclass(frozen=True, slots=True)
class Tried:
    """An experiment that was made."""

    name: str
    vanishes: bool


def _each(change: Callable[[torch.Tensor], torch.Tensor], moves: bool = False) -> Callable[[Case], Case | None]:
    """A change of every input, where it changes any; the layout stays unless the change `moves` it."""

    def apply(witness: Case) -> Case | None:
        changed = [change(tensor) for tensor in witness.tensors]
        if not moves:
            changed = [_in_layout_of(old, new) for old, new in zip(witness.tensors, changed)]
        same = all(_same(a, b) for a, b in zip(changed, witness.tensors))
        return None if same else with_metas(witness.with_tensors(changed))

    return apply


def _in_layout_of(old: torch.Tensor, new: torch.Tensor) -> torch.Tensor:
    """The new values where the old ones lie, so that one experiment changes one thing."""
    if new.shape != old.shape or new.stride() == old.stride() or not new.numel():
        return new
    if any(step == 0 and size > 1 for size, step in zip(old.shape, old.stride())):
        return new
    return with_stride(new, tuple(old.stride()))


def _ordinary(tensor: torch.Tensor) -> torch.Tensor:
    """NaN, infinities, negative zeros and denormal numbers replaced by one."""
    if not tensor.is_floating_point():
        return tensor
    tiny = torch.finfo(tensor.dtype).tiny
    odd = ~torch.isfinite(tensor) | ((tensor.abs() < tiny) & (tensor != 0)) | ((tensor == 0) & tensor.signbit())
    return torch.where(odd, torch.ones_like(tensor), tensor)


def _moderate(tensor: torch.Tensor) -> torch.Tensor:
    if tensor.dtype is torch.bool or tensor.dtype.is_complex:
        return tensor
    top = int(MODERATE) if not tensor.is_floating_point() else MODERATE
    return torch.where(tensor != tensor, tensor, tensor.clamp(-top if tensor.dtype is not torch.uint8 else 0, top))


def _positive(tensor: torch.Tensor) -> torch.Tensor:
    unsigned = tensor.dtype in (torch.bool, torch.uint8) or tensor.dtype.is_complex
    return tensor if unsigned else tensor.abs()


def _half_as_float(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.to(torch.float32) if tensor.dtype in (torch.float16, torch.bfloat16) else tensor


def _reversed(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.flip(list(range(tensor.dim()))) if tensor.dim() else tensor


def _apart(witness: Case) -> Case | None:
    """A copy of every argument before each operator: nothing shares memory any more."""
    program = witness.graph
    if not any(ops.mutated_arguments(node.op) or ops.may_alias(node.op) for node in program.nodes):
        return None
    fresh = max(item.id for item in (*program.given(), *program.nodes)) + 1
    metas = {item.id: item.meta for item in program.given()} | {n.id: n.meta for n in program.nodes}
    nodes: list[Node] = []
    for node in program.nodes:
        copies: dict[int, int] = {}
        written = {
            int(node.args[i])
            for i, _ in ops.mutated_arguments(node.op)
            if i < len(node.args) and isinstance(node.args[i], Ref)
        }
        for identity in dict.fromkeys(references(node)):
            if isinstance(metas.get(identity), TensorMeta) and identity not in written:
                copies[identity] = fresh
                nodes.append(Node(fresh, CLONE, (Ref(identity),), meta=metas[identity]))
                fresh += 1

        def swap(leaf: Any, copies: dict[int, int] = copies) -> Any:
            return Ref(copies.get(int(leaf), int(leaf))) if isinstance(leaf, Ref) else leaf

        nodes.append(changed_leaves(node, swap))
    return witness.with_program(replace(program, nodes=tuple(nodes)))


def _without_round_trips(witness: Case) -> Case | None:
    """Without casts to a narrower floating type: values stay as precise as they were."""
    program = witness.graph
    metas = {item.id: item.meta for item in program.given()} | {n.id: n.meta for n in program.nodes}

    def narrows(node: Node) -> bool:
        before = metas.get(int(node.args[0])) if node.args and isinstance(node.args[0], Ref) else None
        if not traits(node.op).casts or not isinstance(before, TensorMeta) or not isinstance(node.meta, TensorMeta):
            return False
        one, other = DTYPES[before.dtype], DTYPES[node.meta.dtype]
        return one.is_floating_point and other.is_floating_point and other.itemsize < one.itemsize

    narrowing = {node.id for node in program.nodes if narrows(node)}
    returned = {int(leaf) for _, leaf in program.output_leaves() if isinstance(leaf, Ref)}
    if not narrowing - returned:
        return None
    nodes = [
        Node(n.id, CLONE, (n.args[0],), meta=n.meta) if n.id in narrowing - returned else n
        for n in program.nodes
        if not traits(n.op).asserts  # what exporters assert of the narrow value
    ]
    return with_metas(witness.with_program(replace(program, nodes=tuple(nodes))))


def _shown(witness: Case) -> Case | None:
    """With every value that is computed on the way returned as well: nothing can be fused away."""
    program = witness.graph
    returned = {int(leaf) for _, leaf in program.output_leaves() if isinstance(leaf, Ref)}
    inner = [node.id for node in program.nodes if is_tensor(node) and node.id not in returned]
    return witness.with_program(showing(program, inner)[0]) if inner else None


SPECIAL: Final = "NaN, infinities, negative zeros and denormal numbers are replaced by 1"
RANGE: Final = f"all values are between -{MODERATE:g} and {MODERATE:g}"
SIGNS: Final = "all values are positive"
CONTIGUOUS: Final = "inputs are contiguous"
COPIES: Final = "operators get copies of their arguments"
FLOAT32: Final = "half precision is replaced by float32"
ROUND_TRIPS: Final = "casts to a narrower type and back are left out"
SHOWN: Final = "intermediate values are returned as well"

EXPERIMENTS: Final = (
    Experiment(SPECIAL, _each(_ordinary)),
    Experiment(RANGE, _each(_moderate)),
    Experiment(SIGNS, _each(_positive)),
    Experiment(CONTIGUOUS, _each(lambda tensor: tensor.contiguous(), moves=True)),
    Experiment(COPIES, _apart),
    Experiment(FLOAT32, _each(_half_as_float)),
    Experiment(ROUND_TRIPS, _without_round_trips),
    Experiment(SHOWN, _shown),
)


def try_all(
    examiner: Examiner, witness: Case, symptom: Symptom, experiments: Sequence[Experiment] = EXPERIMENTS
) -> list[Tried]:
    """Which variations remove the difference; those that change nothing, or that eager refuses, are left out."""
    made = [(item.name, changed) for item in experiments if (changed := item.change(witness)) is not None]
    if not made:
        return []
    answers = _together(examiner, [changed for _, changed in made]) if symptom.candidate_runs else None
    if answers is None:
        answers = [_alone(examiner, changed, symptom) for _, changed in made]
    return [Tried(name, not shows) for (name, _), shows in zip(made, answers) if shows is not None]


def reversal(examiner: Examiner, witness: Case) -> tuple[float, float] | None:
    """The error with the inputs as they are and in reverse order, in noise floors: a sum in another order."""
    turned = _each(_reversed)(witness)
    if turned is None:
        return None
    errors = [examiner.examine(item).verdict.error_over_bound for item in (witness, turned)]
    return (errors[0] or 0.0, errors[1] or 0.0)


def _together(examiner: Examiner, witnesses: Sequence[Case]) -> list[bool | None] | None:
    crowd = crowd_of(witnesses, "experiments")
    found = examiner.examine(crowd.case)
    if not found.both_ran:
        return None
    return [
        any(found.comparisons[n].conclusion is Conclusion.DIVERGES for n in names if n in found.comparisons)
        for names in crowd.names
    ]


def _alone(examiner: Examiner, witness: Case, symptom: Symptom) -> bool | None:
    found = examiner.examine(witness)
    if symptom.eager_runs and not found.eager.ok:
        return None
    return found.symptom is not None


def _same(first: torch.Tensor, second: torch.Tensor) -> bool:
    if first.dtype != second.dtype or first.stride() != second.stride():
        return False
    equal = (first == second) & (first.signbit() == second.signbit()) if not first.dtype.is_complex else first == second
    return bool((equal | ((first != first) & (second != second))).all())

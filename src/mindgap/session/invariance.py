"""Does a sample get the same result whatever surrounds it? The relations of campaigns, for one model."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Final

import torch

from mindgap.campaign.relations import ALONE, NEIGHBOURS, PERMUTED, resized
from mindgap.errors import ModelError, UsageError
from mindgap.execution.arena import discarded, opened
from mindgap.execution.parcel import Constants, Parcel, make_parcel, open_parcel
from mindgap.execution.pool import Pool, in_parallel
from mindgap.platforms.running import run
from mindgap.program.case import Case
from mindgap.program.inputs import Inputs
from mindgap.records.check import Invariance
from mindgap.records.outcome import Outcome
from mindgap.records.platform import PlatformSpec
from mindgap.records.verdict import Conclusion, Verdict
from mindgap.verdicts.judging import Comparing, Question, ask_judge
from mindgap.verdicts.related import Relation

TWICE: Final = "twice"
RELATIONS: Final = (ALONE, NEIGHBOURS, PERMUTED, TWICE)


@dataclass(frozen=True)
class _Derived:
    """A case whose rows must equal rows of the original."""

    relation: str
    parcel: Parcel
    rows: Relation


def check_invariance(
    pool: Pool,
    parcel: Parcel,
    baseline: PlatformSpec,
    specs: list[PlatformSpec],
    jobs: int,
    tell: Callable[[str, str], None],
) -> dict[str, tuple[Invariance, ...]]:
    """What each platform does with one sample alone, among copies of itself, in another order, and twice in a row.

    A relation that the baseline refuses, or that float64 does not confirm, is left out: then the model itself needs or
    looks at its batch.
    """
    size = batch_of(parcel)
    plain = parcel.without_source()
    case = open_parcel(plain, Constants(), mapped=False)
    derived = [item for item in _derived(pool, case, plain, size) if discarded(run(pool, baseline, item.parcel)).ok]

    def of_platform(spec: PlatformSpec) -> tuple[str, tuple[Invariance, ...]]:
        tell(spec.name, "invariance")
        original = opened(run(pool, spec, plain, runs=2))
        found = [_twice(original)] if original.ok else []
        for item in derived if original.ok else ():
            verdict = _judged(pool, spec, item, original)
            if verdict is not None:
                found.append(Invariance(item.relation, verdict))
        discarded(original)
        return spec.name, tuple(found)

    return dict(in_parallel(jobs, of_platform, specs))


def _derived(pool: Pool, case: Case, parcel: Parcel, size: int) -> Iterator[_Derived]:
    """The cases that must agree with the original."""
    order = tuple(reversed(range(size)))
    for relation, rows in ((ALONE, (0,)), (NEIGHBOURS, (0,) * size), (PERMUTED, order)):
        tensors = [
            tensor.index_select(0, torch.tensor(rows)).contiguous()
            if tensor.dim() and tensor.shape[0] == size
            else tensor
            for tensor in case.tensors
        ]
        changed = _fed(case, tensors)
        if relation == ALONE and case.program is not None:
            changed = changed.with_program(resized(changed.graph, size), tensors)
        take, of = (rows, tuple(range(size))) if relation == PERMUTED else ((0,), (0,))
        path = pool.scratch.new_file("case")
        yield _Derived(relation, make_parcel(changed, path), Relation(parcel, take, of, size))


def _fed(case: Case, tensors: list[torch.Tensor]) -> Case:
    """The same model on other inputs; a file takes any that fit."""
    if case.program is not None:
        return case.with_tensors(tensors)
    named = {item.name: tensor for item, tensor in zip(case.inputs.tensors, tensors)}
    return replace(case, inputs=Inputs.of((), named))


def batch_of(parcel: Parcel) -> int:
    """The first dimension that most inputs share; raises where there is no batch to vary."""
    if not parcel.program and not parcel.model_file:
        raise ModelError(
            "invariance needs a model that can be exported", cause=parcel.export_failure or "the file holds no program"
        )
    first = [meta.shape[0] for meta, _ in parcel.inputs if meta.shape]
    size = max(set(first), key=lambda size: (first.count(size), size)) if first else 0
    if size < 2:
        raise UsageError(
            "invariance needs a batch of at least 2 samples",
            cause=f"the first dimension of its inputs is {size}" if first else "the model takes no batch",
            hint="give inputs() or --inputs with several samples",
        )
    return size


def _judged(pool: Pool, spec: PlatformSpec, item: _Derived, original: Outcome) -> Verdict | None:
    """None where the relation does not hold in float64, or a file fixes the size of its batch."""
    outcome = opened(run(pool, spec, item.parcel))
    if not outcome.ok and item.relation == ALONE and item.parcel.model_file:
        return None
    if not outcome.ok:
        text = f"{outcome.status.value} at {outcome.stage.value}: {outcome.message}"
        return Verdict(spec.name, Conclusion.FAILED, text)
    question = Question(item.parcel, (Comparing(original, (outcome,)),), relation=item.rows)
    found = ask_judge(pool, question).verdicts.get(spec.name)
    discarded(outcome)
    return found


def _twice(outcome: Outcome) -> Invariance:
    text = "gives the same bits twice in a row" if outcome.stable else "differs from itself on a second run"
    conclusion = Conclusion.AGREES if outcome.stable else Conclusion.UNSTABLE
    return Invariance(TWICE, Verdict(outcome.platform, conclusion, text))

"""Oracles that need one platform alone: programs that must agree with each other.

    equivalent   operators rewritten without a change of meaning: the variant gives what its base gives
    permuted     the samples of a batch in another order: the results in that order
    neighbours   one sample among others: its result does not depend on them
    alone        one sample in a batch of one: the same result

A relation is used only where float64 says that it holds for the program at hand (`verdicts/related.py`).
"""

from __future__ import annotations

import contextlib
import itertools
import queue
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, TypeVar

import torch

from mindgap.campaign.dossier import NumberedVariant
from mindgap.campaign.ledger import QUIET, Ledger
from mindgap.campaign.plan import Plan
from mindgap.campaign.runners import Judge, Runner
from mindgap.campaign.stream import Numbering
from mindgap.errors import FilesLost, NoSpace
from mindgap.execution.arena import discarded
from mindgap.execution.batches import SPACE_WAIT_S
from mindgap.execution.parcel import Parcel
from mindgap.execution.pool import in_parallel
from mindgap.program.codec import decode, encode
from mindgap.program.graph import Input, Node, Program
from mindgap.program.made import Recipe, held, recreate
from mindgap.program.operators import traits
from mindgap.records.outcome import Outcome
from mindgap.records.tensors import TensorMeta
from mindgap.records.variant import Intent, Provenance
from mindgap.records.verdict import Verdict
from mindgap.verdicts.judging import Comparing, Judged, Question
from mindgap.verdicts.related import Relation

EQUIVALENT, PERMUTED, NEIGHBOURS, ALONE = "equivalent", "permuted", "neighbours", "alone"
AT_ONCE: Final = 16
LOST_TRIES: Final = 8

T = TypeVar("T")

Derived = tuple[Program, Relation]


def relations(variant: NumberedVariant, base: Program | None, weights: str = "") -> Iterator[tuple[str, Derived]]:
    """Programs that must agree with a variant, each with the rows that must be equal."""
    program = decode(variant.parcel.program)
    if variant.provenance.intent is Intent.INVALID:
        return
    if base is not None and variant.provenance.intent is Intent.EQUIVALENT:
        yield EQUIVALENT, (program, Relation(replace(variant.parcel, program=encode(base), weights=weights)))
    size = batch_size(program)
    if size < 2:
        return
    order = tuple(reversed(range(size)))
    first_only = (0,) * size
    for oracle, rows, sizes in ((PERMUTED, order, size), (NEIGHBOURS, first_only, size), (ALONE, (0,), 1)):
        derived = with_rows(program, rows, size)
        if sizes == 1 and derived is not None:
            derived = resized(derived, size)
        if derived is not None:
            take, of = (rows, tuple(range(size))) if oracle == PERMUTED else ((0,), (0,))
            yield oracle, (derived, Relation(variant.parcel, take, of, size))


def batch_size(program: Program) -> int:
    """The first dimension that most inputs share; 0 when there is none."""
    first = [item.meta.shape[0] for item in program.inputs if item.meta.shape]
    return max(set(first), key=lambda size: (first.count(size), size)) if first and program.example else 0


def with_rows(program: Program, rows: Sequence[int], size: int) -> Program | None:
    """The program on a batch made of these rows of its own; None when its inputs are too large to travel."""
    inputs: list[Input] = []
    example: list[Recipe] = []
    for item, recipe in zip(program.inputs, program.example):
        if not item.meta.shape or item.meta.shape[0] != size:
            inputs.append(item)
            example.append(recipe)
            continue
        tensor = recreate(recipe, item.meta).index_select(0, torch.tensor(rows)).contiguous()
        values = held(tensor, limit_bytes=1 << 20)
        if values is None:
            return None
        inputs.append(replace(item, meta=TensorMeta.of(tensor)))
        example.append(values)
    return replace(program, inputs=tuple(inputs), example=tuple(example))


def resized(program: Program, size: int) -> Program:
    """Sizes that begin with the size of the batch begin with one instead; float64 tells whether that fits."""

    def one(sizes: Any) -> Any:
        starts = isinstance(sizes, list | tuple) and len(sizes) > 0 and sizes[0] == size
        return type(sizes)([1, *sizes[1:]]) if starts else sizes

    def change(node: Node) -> Node:
        known = traits(node.op)
        args = tuple(map(one, node.args)) if known.reshapes or known.sized else node.args
        return replace(node, args=args, meta=None)

    return replace(program, nodes=tuple(map(change, program.nodes)))


def chosen(ledger: Ledger, plan: Plan) -> list[NumberedVariant]:
    """Variants whose relations are still to be looked at, without their programs: those are read one by one."""
    rows = ledger.data.execute(
        "SELECT p.id, p.fingerprint, p.name, p.nodes, p.intent, b.fingerprint, b.name FROM programs p "
        "JOIN bases b ON b.id = p.base WHERE p.program IS NOT NULL AND p.id NOT IN (SELECT program FROM related)"
    )
    return [
        NumberedVariant(number, fingerprint, name, nodes, Parcel(), Provenance(base, base_name, 0, Intent(intent)))
        for number, fingerprint, name, nodes, intent, base, base_name in rows
        if plan.is_related(fingerprint, Intent(intent))
    ]


@dataclass(frozen=True)
class _Asked:
    """A relation of a variant, on its way to a platform."""

    variant: NumberedVariant
    oracle: str
    relation: Relation
    parcel: Parcel


@dataclass(frozen=True)
class RelationCheck:
    """Asks every platform about the chosen variants, and writes what it said to the ledger."""

    ledger: Ledger
    lock: threading.Lock
    plan: Plan
    numbering: Numbering
    runners: dict[str, Runner]
    judges: Sequence[Judge]
    stopped: Callable[[], bool]
    tell: Callable[[str, int, int], None] = lambda platform, done, count: None
    """Variants that are done on a platform, of how many."""
    on_pause: Callable[[NoSpace], None] = lambda reason: None

    def run(self) -> None:
        with self.lock:
            left = chosen(self.ledger, self.plan)
        counts = {name: sum(self.plan.is_due(name, variant.fingerprint) for variant in left) for name in self.runners}
        done = dict.fromkeys(self.runners, 0)
        for name, count in counts.items():
            self.tell(name, 0, count)
        for start in range(0, len(left), AT_ONCE):
            if self.stopped():
                return
            part = [self._read(variant) for variant in left[start : start + AT_ONCE]]
            self._together(part, lambda name, more: self.tell(name, done[name] + more, counts[name]))
            for name in done:
                done[name] += sum(self.plan.is_due(name, variant.fingerprint) for variant in part)

    def _read(self, variant: NumberedVariant) -> NumberedVariant:
        with self.lock:
            program = self.ledger.program(variant.number)
        assert program is not None
        return replace(variant, parcel=Parcel(program, weights=self.numbering.weights))

    def _together(self, part: Sequence[NumberedVariant], tell: Callable[[str, int], None]) -> None:
        """As many platforms at the same time as there are judges."""
        free: queue.SimpleQueue[Judge] = queue.SimpleQueue()
        for judge in self.judges:
            free.put(judge)

        def ask(platform: str) -> list[tuple[Any, ...]]:
            judge = free.get()
            try:
                return self._on(platform, part, judge, tell)
            finally:
                free.put(judge)

        found = in_parallel(len(self.judges), ask, list(self.runners))
        rows = [row for of_platform in found for row in of_platform]
        while not self.stopped():  # otherwise its workers were ended, and nothing said means nothing
            try:
                with self.lock:
                    self.ledger.write_related([variant.number for variant in part], rows)
                return
            except NoSpace as reason:
                self.on_pause(reason)
                time.sleep(SPACE_WAIT_S)

    def _on(
        self, platform: str, part: Sequence[NumberedVariant], judge: Judge, tell: Callable[[str, int], None]
    ) -> list[tuple[Any, ...]]:
        for _ in range(LOST_TRIES):
            with contextlib.suppress(FilesLost):  # what was removed is computed again
                return self._rows(platform, part, judge, tell)
        return self._rows(platform, part, judge, tell)

    def _rows(
        self, platform: str, part: Sequence[NumberedVariant], judge: Judge, tell: Callable[[str, int], None]
    ) -> list[tuple[Any, ...]]:
        due = [variant for variant in part if self.plan.is_due(platform, variant.fingerprint)]
        asked = [item for variant in due for item in self._asked(variant)]
        distinct = {item.relation.original.program: item.relation.original for item in asked}
        steps, count = itertools.count(1), len(distinct) + 2 * len(asked)

        def keep(found: dict[int, T], number: int, item: T) -> None:
            found[number] = item
            tell(platform, len(due) * next(steps) // count)

        ran = self._run(platform, list(distinct.values()), keep)
        order = {program: number for number, program in enumerate(distinct)}
        originals = {n: ran[k] for n, item in enumerate(asked) if (k := order[item.relation.original.program]) in ran}
        derived = self._run(platform, [item.parcel for item in asked], keep)
        both = [n for n in range(len(asked)) if n in originals and n in derived]
        ready = [n for n in both if originals[n].ok and derived[n].ok]
        questions = [
            Question(asked[n].parcel, (Comparing(originals[n], (derived[n],)),), relation=asked[n].relation)
            for n in ready
        ]
        found: dict[int, Judged] = {}
        judge.judge(questions, lambda number, judged: keep(found, number, judged))
        tell(platform, len(due))
        for outcome in (*originals.values(), *derived.values()):
            discarded(outcome)
        return [
            (asked[ready[n]].variant.number, platform, asked[ready[n]].oracle, *_columns(verdict))
            for n, judged in found.items()
            for verdict in judged.verdicts.values()
        ]

    def _asked(self, variant: NumberedVariant) -> Iterator[_Asked]:
        base = self.numbering.base_of(variant.provenance.base)
        for oracle, (program, relation) in relations(variant, base, self.numbering.weights):
            parcel = replace(variant.parcel, program=encode(program, compression=0))
            yield _Asked(variant, oracle, relation, parcel)

    def _run(
        self, platform: str, cases: Sequence[Parcel], keep: Callable[[dict[int, Outcome], int, Outcome], None]
    ) -> dict[int, Outcome]:
        found: dict[int, Outcome] = {}
        self.runners[platform].run(cases, 1, lambda number, outcome: keep(found, number, outcome))
        return found


def _columns(verdict: Verdict) -> tuple[Any, ...]:
    kind = verdict.kind.value if verdict.kind else None
    sentence = verdict.sentence if verdict.conclusion not in QUIET else None
    return (verdict.conclusion.value, kind, verdict.error_over_bound, verdict.worst, sentence)

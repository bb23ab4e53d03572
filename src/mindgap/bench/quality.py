"""How well explanations find planted faults in variants of real models."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any, Final

import torch

from mindgap.bench.faults import FAULTS, MARK, PLANTED
from mindgap.bench.measurement import Measurement, median
from mindgap.bench.side_by_side import Row, make_rows
from mindgap.errors import MindgapError
from mindgap.execution.pool import Pool
from mindgap.explanation.explain import explain_case
from mindgap.platforms.config import Config
from mindgap.platforms.registry import resolve
from mindgap.platforms.versions import versions
from mindgap.program import ops
from mindgap.program.case import Case
from mindgap.program.graph import Node, Program, Ref
from mindgap.program.made import recreate
from mindgap.program.operators import Rounding, Terms, traits
from mindgap.records.explanation import Explanation
from mindgap.records.tensors import TensorMeta
from mindgap.records.variant import Intent
from mindgap.reduction.reducer import Budget
from mindgap.session.session import Session
from mindgap.tracing.examine import Examiner
from mindgap.tracing.extract import is_access
from mindgap.variants.base import Base, load_bases
from mindgap.variants.synthesis import Synthesis
from mindgap.verdicts.unspecified.chance import may_draw

FEW: Final = 3
VARIANTS: Final = 12
"""Variants that are tried for one fault: not every program has integers, or writes to a view."""
ATTEMPTS: Final = 8
"""Nodes that are tried until a planted fault reaches an output; one that does not is no finding."""


STREAMS: Final = 1_000_000
"""Streams of variants of one seed: each fault draws from its own, so that they can be planted in any order."""


def measure(
    tell: Callable[[str, str], None],
    count: int = 230,
    seed: int = 0,
    kept: Path | None = None,
    jobs: int = 2,
    budget_s: float = 60.0,
) -> Measurement:
    """Plant one fault in each of `count` variants of the smoke corpus and explain what it does."""
    names = list(FAULTS)
    bases = load_bases()
    with tempfile.TemporaryDirectory() as place:

        def work(number: int) -> Callable[[Session], Row]:
            fault = names[number % len(names)]
            return lambda session: _planted_once(session.pool, bases, fault, seed, number, Path(place), budget_s)

        todo = {f"{names[number % len(names)]} {number}, seed {seed}": work(number) for number in range(count)}
        rows = make_rows(todo, jobs, kept, lambda what: tell("quality", what))
    table = [_summary(fault, [row for row in rows if row["fault"] == fault]) for fault in names[:count]]
    table.append(_summary("all", rows))
    return Measurement(
        name="quality",
        what="planted faults explained: the node at fault named first, its kind of cause, a witness of at most "
        f"{FEW} operators, and a script (with a stand-in for the faulty platform) that shows it",
        on=f"{len(rows)} faults in variants of the smoke corpus, seed {seed}; those that reach an output count",
        rows=tuple(table),
        conclusion="\n".join([_sentence(rows), *(f"  {_miss(row)}" for row in rows if _missed(row))]),
        versions=versions(),
    )


def witnesses(bases: Sequence[Base], seed: int) -> Iterator[tuple[str, Case]]:
    """Variants with their weights and inputs, an endless stream."""
    known = {base.fingerprint: base for base in bases}
    for variant in Synthesis(bases, seed, invalid_share=0.0):
        program, kept = variant.program, dict(known[variant.provenance.base].kept)
        if variant.provenance.donor:
            kept |= known[variant.provenance.donor].kept
        if variant.provenance.intent is Intent.INVALID or len(program.example) != len(program.inputs):
            continue
        inputs = tuple(recreate(recipe, item.meta) for recipe, item in zip(program.example, program.inputs))
        constants = {
            c.digest: recreate(c.made, c.meta) if c.made is not None else kept[c.digest] for c in program.constants
        }
        yield variant.provenance.base_name, Case.of(program, constants, inputs)


def planted(witness: Case, fault: str, rng: Random) -> Iterator[tuple[Node, Case]]:
    """The witness with the fault at one node that can have it, in random order."""
    program = witness.graph
    able = [node for node in program.nodes if can_have(node, fault, program)]
    rng.shuffle(able)
    for node in able:
        marked = replace(node, where=f"{MARK}{fault}")
        nodes = tuple(marked if other.id == node.id else other for other in program.nodes)
        found = witness.with_program(replace(program, nodes=nodes))
        yield marked, _with_nan(found) if fault == "nan_dropped" else found


def can_have(node: Node, fault: str, program: Program) -> bool:
    """Whether a fault makes sense at a node."""
    meta = node.meta
    if is_access(node) or not isinstance(meta, TensorMeta) or not node.op.startswith("aten."):
        return False
    writes = bool(ops.mutated_arguments(node.op))
    if fault == "stale_view":
        return ops.may_alias(node.op) and not writes and any(ops.mutated_arguments(n.op) for n in program.nodes)
    known = traits(node.op)
    drawn = may_draw(node.op) and (known.drops or known.rounding is Rounding.EXACT)
    if writes or drawn or "uninitialised-memory" in known.unspecified:
        return False
    if fault == "narrow_integer":
        return meta.dtype == "int64"
    if fault == "wrong_dim":
        along_one = known.shares or known.scans or known.adds or known.terms is Terms.NORMALISED
        return along_one and meta.shape[:1] > (1,)
    if fault == "strides_ignored":
        metas = {n.id: n.meta for n in program.nodes}
        args = [metas.get(int(a)) for a in node.args if isinstance(a, Ref)]
        return not ops.may_alias(node.op) and any(isinstance(m, TensorMeta) and _strided(m) for m in args)
    return meta.dtype == "float32" and not ops.may_alias(node.op)


def _strided(meta: TensorMeta) -> bool:
    return not torch.empty_strided(meta.shape, meta.stride, device="meta").is_contiguous()


def _with_nan(witness: Case) -> Case:
    """One NaN in the first floating input."""
    tensors = list(witness.tensors)
    for place, tensor in enumerate(tensors):
        if tensor.is_floating_point() and tensor.numel():
            changed = tensor.clone(memory_format=torch.contiguous_format)
            changed.view(-1)[0] = float("nan")
            tensors[place] = changed
            break
    return witness.with_tensors(tensors)


def _planted_once(
    pool: Pool, bases: Sequence[Base], fault: str, seed: int, number: int, place: Path, budget_s: float
) -> Row:
    """The first variants of a stream until the fault reaches an output of one."""
    row: Row = {"fault": fault, "found": False}
    stream = witnesses(bases, seed * STREAMS + number)
    for drawn, (base, witness) in zip(range(1, VARIANTS + 1), stream):
        row |= {"base": base, "drawn": drawn, **_one(pool, witness, fault, number, place, budget_s)}
        if row["found"]:
            break
    return row


def _one(pool: Pool, witness: Case, fault: str, number: int, place: Path, budget_s: float) -> Row:
    rng = Random(number)
    examiner = Examiner(pool, resolve("eager"), PLANTED)
    for attempt, (node, marked) in enumerate(planted(witness, fault, rng)):
        if attempt == ATTEMPTS:
            break
        start = time.perf_counter()
        if examiner.examine(marked).symptom is None:
            continue
        plain = time.perf_counter() - start
        spec = replace(PLANTED, options={"fault": fault, "op": node.op.split(".")[1]})
        try:
            found = explain_case(pool, fault, marked, spec, Config(), place / str(number), Budget(budget_s))
        except Exception as error:  # a bug of ours is a row too
            text = str(error) if isinstance(error, MindgapError) else f"bug: {type(error).__name__}: {error}"
            return {"found": True, "op": node.op, "nodes": len(witness.graph.nodes), "problem": text}
        return {**_score(found, node, fault), "examine_s": round(plain, 3)}
    return {"found": False}


def _score(found: Explanation, node: Node, fault: str) -> Row:
    return {
        "found": True,
        "op": node.op,
        "nodes": len(found.trace),
        "named": not found.is_together and found.culprits[0] == node.id,
        "class": found.cause.kind.value,
        "class_right": found.cause.kind.value in FAULTS[fault].classes,
        "left": len(found.proof.operators),
        "operators": list(found.proof.operators),
        "reproduces": found.script.reproduces,
        "said": "" if found.script.reproduces else found.script.said[-300:],
        "seconds": sum(found.seconds.values()),
        "trace_s": found.seconds.get("trace", 0.0),
        "trace_runs": round(found.plain_runs, 2),
        "problem": "",
    }


def _missed(row: Row) -> bool:
    good = row.get("named") and row.get("class_right") and row.get("reproduces") and row.get("left", 9) <= FEW
    return bool(row["found"]) and not good


def _miss(row: Row) -> str:
    if row["problem"]:
        return f"{row['fault']} at {row['op']}: {row['problem'][:120]}"
    wrong = [] if row["named"] else ["another node is named"]
    wrong += [] if row["class_right"] else [f"called {row['class']}"]
    wrong += [] if row["left"] <= FEW else [f"{row['left']} operators left"]
    wrong += [] if row["reproduces"] else ["the script does not show it"]
    return f"{row['fault']} at {row['op']} in {row['base']}: {', '.join(wrong)}"


def _summary(fault: str, rows: Sequence[Row]) -> Row:
    found = [row for row in rows if row["found"]]
    times = [row["seconds"] for row in found if "seconds" in row]
    return {
        "fault": fault,
        "variants": sum(row["drawn"] for row in rows),
        "reach an output": len(found),
        "node named first": _share(found, lambda row: row.get("named")),
        "cause right": _share(found, lambda row: row.get("class_right")),
        f"at most {FEW} operators": _share(found, lambda row: row.get("left", 9) <= FEW),
        "script shows it": _share(found, lambda row: row.get("reproduces")),
        "tracing, in plain runs (median)": median([row["trace_runs"] for row in found if "trace_runs" in row]),
        "seconds (median)": median(times),
    }


def _share(rows: Sequence[Row], good: Callable[[Row], Any]) -> str:
    return f"{sum(bool(good(row)) for row in rows)}/{len(rows)}" if rows else "-"


def _sentence(rows: Sequence[Row]) -> str:
    found = [row for row in rows if row["found"]]
    if not found:
        return "no fault reached an output"

    def part(key: str) -> str:
        return f"{100 * sum(bool(row.get(key)) for row in found) / len(found):.0f}%"

    few = f"{100 * sum(row.get('left', 9) <= FEW for row in found) / len(found):.0f}%"
    return (
        f"of {len(found)} faults: node named first {part('named')} (aim 95%), "
        f"cause right {part('class_right')} (aim 80%), at most {FEW} operators {few} (aim 90%), "
        f"script shows it {part('reproduces')} (aim 100%)"
    )

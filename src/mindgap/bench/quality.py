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

from mindgap.bench.explain import FEW, result_columns
from mindgap.bench.faults import FAULTS, MARK, OPAQUE, PLANTED
from mindgap.bench.measurement import Measurement, Row, Tell, grouped, median, share
from mindgap.bench.side_by_side import make_rows, problem_of
from mindgap.errors import UsageError
from mindgap.execution.parcel import Constants, open_parcel
from mindgap.execution.pool import Pool
from mindgap.explanation.explain import explain_case
from mindgap.platforms.config import Config
from mindgap.platforms.registry import resolve
from mindgap.program import ops
from mindgap.program.case import Case
from mindgap.program.graph import Node, Program, Ref
from mindgap.program.made import recreate
from mindgap.program.operators import Rounding, Terms, traits
from mindgap.records.explanation import MOST_NAMED
from mindgap.records.platform import PlatformSpec
from mindgap.records.tensors import TensorMeta
from mindgap.records.variant import Intent
from mindgap.reduction.cutting import returning
from mindgap.reduction.reducer import Budget
from mindgap.session.session import Session
from mindgap.tracing.examine import Examiner
from mindgap.tracing.extract import is_access, units
from mindgap.variants.base import Base, load_bases
from mindgap.variants.synthesis import Synthesis
from mindgap.verdicts.unspecified.chance import may_draw

VARIANTS: Final = 12
"""Variants that are tried for one fault: not every program has integers, or writes to a view."""
ATTEMPTS: Final = 8
"""Nodes that are tried until a planted fault reaches an output; one that does not is no finding."""
STREAMS: Final = 1_000_000
"""Streams of variants of one seed: each fault draws from its own, so that they can be planted in any order."""
TARGETS: Final = {
    "node named first": "95%", "cause right": "80%", f"at most {FEW} operators": "90%", "script shows it": "100%",
}  # fmt: skip


MODELS: Final = (
    "timm:mobilevit_xxs", "timm:densenet121", "timm:swin_tiny_patch4_window7_224", "timm:efficientvit_m5",
    "timm:vit_tiny_patch16_224", "transformers:gemma3:Gemma3ForSequenceClassification",
    "transformers:qwen3_next:Qwen3NextForCausalLM", "transformers:t5:T5ForQuestionAnswering",
    "transformers:mobilevit:MobileViTModel", "transformers:granitemoe_swa:GraniteMoeSWAForCausalLM",
)  # fmt: skip
"""Real models of 200 to 1,000 operators: convolutional, transformers, and both in one."""
OPAQUE_S: Final = 300.0
"""For one explanation in a real model."""


def measure(
    tell: Tell,
    count: int = 230,
    seed: int = 0,
    keep: Path | None = None,
    jobs: int = 2,
    budget_s: float = 120.0,
    opaque: bool = False,
) -> Measurement:
    """Plant one fault in each of `count` variants of the smoke corpus and explain what it does.

    With `opaque`, in real models on a platform that shows nothing of what is inside.
    """
    if opaque:
        return _measure_opaque(tell, seed, keep, jobs)
    names = list(FAULTS)
    bases = load_bases()
    with tempfile.TemporaryDirectory() as place:

        def work(number: int) -> Callable[[Session], Row]:
            fault = names[number % len(names)]
            return lambda session: _planted_once(session.pool, bases, fault, seed, number, Path(place), budget_s)

        todo = {f"{names[number % len(names)]} {number}, seed {seed}": work(number) for number in range(count)}
        rows = make_rows(todo, jobs, keep, lambda what: tell("quality", what))
    total = _summary("all", [row for row in rows if row["found"]], percent=True)
    shares = ", ".join(f"{name} {total[name]} (target: {target})" for name, target in TARGETS.items())
    misses = [f"  {row['fault']} at {row['op']} in {row['base']}: {_missed(row)[:200]}" for row in rows if _missed(row)]
    return Measurement(
        name="quality",
        what="planted faults explained: the node at fault named first, its kind of cause, a witness of at most "
        f"{FEW} operators, and a script (with a stand-in for the faulty platform) that shows it",
        on=f"{len(rows)} faults in variants of the smoke corpus, seed {seed}; those that reach an output count",
        rows=grouped(rows, lambda row: str(row["fault"]), _summary),
        conclusion="\n".join([f"of {total['reach an output']} faults: {shares}", *misses]),
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
        marked = replace(node, where=f"{node.where}{MARK}{fault}")
        nodes = tuple(marked if other.id == node.id else other for other in program.nodes)
        found = witness.with_program(replace(program, nodes=nodes))
        yield marked, _with_nan(found) if fault == "nan_dropped" else found


def can_have(node: Node, fault: str, program: Program) -> bool:
    """Whether a fault makes sense at a node."""
    meta = node.meta
    if is_access(node) or not isinstance(meta, TensorMeta) or not node.op.startswith("aten."):
        return False
    writes = bool(ops.mutated_arguments(node.op))
    known = traits(node.op)
    if fault == "stale_view":
        return known.view and not writes and any(ops.mutated_arguments(n.op) for n in program.nodes)
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
        return not known.view and any(isinstance(m, TensorMeta) and _strided(m) for m in args)
    return meta.dtype == "float32" and not known.view


def _strided(meta: TensorMeta) -> bool:
    return not torch.empty_strided(meta.shape, meta.stride, device="meta").is_contiguous()


def _with_nan(witness: Case) -> Case:
    """One NaN in the first floating input."""
    tensors = list(witness.tensors)
    for index, tensor in enumerate(tensors):
        if tensor.is_floating_point() and tensor.numel():
            changed = tensor.clone(memory_format=torch.contiguous_format)
            changed.view(-1)[0] = float("nan")
            tensors[index] = changed
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
        if examiner.examine(marked).symptom is None:
            continue
        spec = replace(PLANTED, options={"fault": fault, "op": node.op.split(".")[1]})
        try:
            found = explain_case(pool, fault, marked, spec, Config(), place / str(number), Budget(budget_s))
        except Exception as error:
            return {"found": True, "op": node.op, "problem": problem_of(error)}
        return {
            **result_columns(found),
            "found": True,
            "op": node.op,
            "left": len(found.proof.operators),
            "named": found.culprits[0] == node.id,
            "together": found.is_together,
            "class_right": found.cause.kind.value in FAULTS[fault].classes,
            "seconds": sum(found.seconds.values()),
        }
    return {"found": False}


def _measure_opaque(tell: Tell, seed: int, keep: Path | None, jobs: int) -> Measurement:
    """Two faults in each model: one that its operator shows alone, one that it shows only with those that read it."""
    with tempfile.TemporaryDirectory() as place:

        def work(name: str, fused: bool, number: int) -> Callable[[Session], Row]:
            return lambda session: _in_model(session, name, fused, seed * len(MODELS) + number, Path(place))

        todo = {
            f"{name}{' fused' if fused else ''}, seed {seed}": work(name, fused, number)
            for fused in (False, True)
            for number, name in enumerate(MODELS)
        }
        rows = make_rows(todo, jobs, keep, lambda what: tell("quality", what))

    def right(fused: bool) -> str:
        mine = [row for row in rows if row["wrong"] == _WRONG[fused]]
        return share(sum(row["named"] and row["seconds"] <= OPAQUE_S for row in mine), len(mine))

    return Measurement(
        name="quality",
        what="planted faults in real models, on a runtime that returns one tensor and refuses to show another: the "
        f"operator at fault is the one that is named, or one of at most {MOST_NAMED}, within {OPAQUE_S:g} s",
        on=f"{len(MODELS)} models with {len(rows)} faults, seed {seed}, {jobs} at once; a fault is wrong alone, or "
        "only where its result is not returned, as if it were fused with those that read it",
        rows=[{key: row[key] for key in _COLUMNS} for row in rows],
        conclusion=f"named in time: {right(False)} that are wrong alone (target: 9 of 10), {right(True)} that are "
        "wrong only together",
    )


_WRONG: Final = {False: "alone", True: "together"}
_COLUMNS: Final = (
    "model", "operators", "fault", "at", "wrong", "named", "left", "cause right", "script shows it", "seconds",
    "problem",
)  # fmt: skip


def _in_model(session: Session, name: str, fused: bool, number: int, place: Path) -> Row:
    """The first fault, from this number on, that some operator of a model can have and that reaches its output."""
    row: Row = dict.fromkeys(_COLUMNS, "") | {"model": name, "wrong": _WRONG[fused], "named": False, "seconds": 0.0}
    try:
        parcel = session.build(name, None)
        witness = open_parcel(parcel.without_source(), Constants())
        first = next(leaf for _, leaf in witness.graph.output_leaves() if isinstance(leaf, Ref))
        witness = returning(witness, [int(first)])
        row["operators"] = len(units(witness.graph))
        spec = replace(OPAQUE, options={"fused": fused}, worker=_WRONG[fused])
        fault, node, marked = _reaching(session.pool, witness, spec, Random(number), number)
        row |= {"fault": fault, "at": node.op}
        spec = replace(spec, options={"fused": fused, "fault": fault, "op": node.op.split(".")[1]})
        start = time.monotonic()
        target = place / f"{number}-{_WRONG[fused]}"
        found = explain_case(session.pool, fault, marked, spec, Config(), target, Budget(OPAQUE_S))
    except Exception as error:
        return row | {"problem": problem_of(error)}
    named = found.culprits if found.is_together and len(found.culprits) <= MOST_NAMED else found.culprits[:1]
    return row | {
        "named": node.id in named,
        "left": len(found.proof.operators),
        "cause right": found.cause.kind.value in FAULTS[fault].classes,
        "script shows it": found.script.reproduces,
        "seconds": round(time.monotonic() - start, 1),
        "problem": ", ".join(f"no time to {stage}" for stage in found.unfinished),
    }


def _reaching(pool: Pool, witness: Case, spec: PlatformSpec, rng: Random, number: int) -> tuple[str, Node, Case]:
    """A fault at a node whose error reaches the output."""
    names = list(FAULTS)
    examiner = Examiner(pool, resolve("eager"), spec)
    for fault in names[number % len(names) :] + names[: number % len(names)]:
        for _, (node, marked) in zip(range(ATTEMPTS), planted(witness, fault, rng)):
            if examiner.examine(marked).symptom is not None:
                return fault, node, marked
    raise UsageError("no fault reaches an output")


def _missed(row: Row) -> str:
    """What the explanation of a fault that reached an output lacks; empty when it is as it should be."""
    if not row["found"] or row["problem"]:
        return str(row.get("problem", ""))
    wrong = {
        "another node is named": not row["named"],
        f"called {row['class']}": not row["class_right"],
        f"{row['left']} operators left": row["left"] > FEW,
        "the script does not show it": not row["reproduces"],
    }
    return ", ".join(what for what, is_so in wrong.items() if is_so)


def _summary(fault: str, rows: Sequence[Row], percent: bool = False) -> Row:
    found = [row for row in rows if row["found"]]
    done = [row for row in found if not row["problem"]]

    def part(good: Callable[[Row], Any]) -> str:
        right = sum(bool(good(row)) for row in done)
        return f"{100 * right / max(1, len(found)):.0f}%" if percent else share(right, len(found))

    return {
        "fault": fault,
        "variants": sum(row["drawn"] for row in rows),
        "reach an output": len(found),
        "node named first": part(lambda row: row["named"]),
        "wrong alone": part(lambda row: row["named"] and not row.get("together")),
        "cause right": part(lambda row: row["class_right"]),
        f"at most {FEW} operators": part(lambda row: row["left"] <= FEW),
        "script shows it": part(lambda row: row["reproduces"]),
        "tracing, in plain runs (median)": median([row["trace_runs"] for row in done]),
        "seconds (median)": median([row["seconds"] for row in done]),
    }

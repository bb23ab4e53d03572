"""How fast variants are made, what they reach, and whether they run."""

from __future__ import annotations

import contextlib
import hashlib
import multiprocessing
import os
import time
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, field, fields
from functools import partial
from itertools import islice
from statistics import mean, median
from typing import ClassVar, Final

import torch
from torch._subclasses.fake_tensor import FakeTensorMode

from mindgap.bench.measurement import Measurement, Row, Tell
from mindgap.errors import UsageError
from mindgap.execution.parcel import Constants
from mindgap.program import codec
from mindgap.program.examples import of_program
from mindgap.program.graph import Constant, Input, Node, Program, Ref, digest, leaves
from mindgap.program.interpret import Executable
from mindgap.program.made import Made, recreate
from mindgap.records.memory import resident_mb
from mindgap.records.tensors import DTYPES, TensorMeta
from mindgap.records.variant import Intent
from mindgap.variants.base import Base, load_bases, prepare
from mindgap.variants.draft import Draft
from mindgap.variants.rules import Refused, RuleTable
from mindgap.variants.synthesis import Synthesis, Variant, make_variant

SEVENTY: Final = ("language-bert", "vision-dinov2", "time-series-patchtst", "vision-byobnet")
"""Bases of 74 to 79 nodes: a transformer for text, one for images, one for time series, a convolutional network."""
SIZES: Final = (100, 300, 1000, 3000, 10_000)
_BASELINE: Final = 12  # variants that the baseline validates: it takes a good part of a second for each
_EDITS: Final = 60
_BATCH: Final = 50


def measure(
    tell: Tell, variants: int = 20_000, executed: int = 5_000, long: int = 100_000, part: Sequence[str] = ()
) -> Measurement:
    """Pace, cost of an edit by graph size, reach, distinctness, memory, and the share that really runs."""
    torch.set_num_threads(1)
    bases = load_bases()
    makers: dict[str, Callable[[], list[Row]]] = {
        "pace": lambda: _pace(tell, warm=min(3000, variants), counted=min(1500, variants)),
        "edits": lambda: _edit_costs(tell),
        "running": lambda: _executes(tell, bases, executed),
        "reach": lambda: _reach(tell, bases, variants, long),
    }
    unknown = [name for name in part if name not in makers]
    if unknown:
        raise UsageError(f"there is no part {unknown[0]}", hint=f"parts are {', '.join(makers)}")
    rows = [row for name, make in makers.items() if not part or name in part for row in make()]
    aimed = [row for row in rows if row["target"] != "-"]
    missed = [str(row["what"]) for row in aimed if not row["met"]]
    return Measurement(
        name="synthesis",
        what="variants made, checked operator by operator with learned rules, and really run on eager",
        on=f"the smoke corpus ({len(bases)} programs), one thread per process, {os.cpu_count()} cores with a load of "
        f"{os.getloadavg()[0]:.0f} from other work",
        rows=rows,
        conclusion=f"{len(aimed) - len(missed)} of {len(aimed)} targets met"
        + (f"; missed: {'; '.join(missed)}" if missed else ""),
    )


def _row(what: str, found: str, target: str = "-", met: bool = True) -> Row:
    return {"what": what, "found": found, "target": target, "met": met if target != "-" else "-"}


# Pace


def _pace(tell: Tell, warm: int, counted: int) -> list[Row]:
    """Two processes at once, each with its own learned table; then the baseline in this one."""
    tell("pace", f"two processes, {warm + counted:,} variants each")
    with ProcessPoolExecutor(2, mp_context=multiprocessing.get_context("spawn")) as pool:
        wall, cpu, cold = map(sum, zip(*pool.map(_work, [1, 2], [warm] * 2, [counted] * 2)))
    tell("pace", "baseline with FakeTensorMode")
    ours, theirs, once = _against_baseline(warm)
    ratio = theirs / ours
    return [
        _row(f"variants per second, two processes, ~75 nodes, after {warm:,} variants", f"{wall:,.0f}", "1,000",
             wall >= 1000),
        _row("the same, from CPU time: twice the pace of one core", f"{cpu:,.0f}", "1,000", cpu >= 1000),
        _row(f"the first {warm:,} variants, by CPU time, with an empty table", f"{cold:,.0f}"),
        _row("checking each edit with FakeTensorMode against making and checking a variant here",
             f"{1000 * theirs:.1f} ms / {1000 * ours:.2f} ms = {ratio:.0f} x", "25 x", ratio >= 25),
        _row("one check of the finished variant alone, which finds out too late",
             f"{1000 * once:.1f} ms = {once / ours:.0f} x"),
    ]  # fmt: skip


def _work(seed: int, warm: int, counted: int) -> tuple[float, float, float]:
    """Variants per second by the clock and by CPU time with a warm table, and by CPU time with an empty one."""
    torch.set_num_threads(1)
    stream = iter(Synthesis(_seventy(), seed, rules=RuleTable()))
    cold = time.process_time()
    for _ in islice(stream, warm):
        pass
    cpu, wall = time.process_time(), time.perf_counter()
    for _ in islice(stream, counted):
        pass
    return counted / (time.perf_counter() - wall), counted / (time.process_time() - cpu), warm / (cpu - cold)


def _seventy() -> list[Base]:
    return load_bases([f"smoke:{name}" for name in SEVENTY])


def _against_baseline(warm: int) -> tuple[float, float, float]:
    """CPU seconds to make a variant here, to check all its edits with FakeTensorMode, and to check it once."""
    bases = _seventy()
    synthesis = Synthesis(bases, 3, invalid_share=0.0)
    synthesis.skip(warm)
    start = time.process_time()
    made = list(islice(synthesis, _EDITS))
    ours = (time.process_time() - start) / len(made)
    once = [_seconds(partial(_propagate_fake, variant.program)) for variant in made[:_BASELINE]]
    _CheckedDraft.times.clear()
    for _ in islice(Synthesis(bases, 3, invalid_share=0.0, draft_type=_CheckedDraft), _BASELINE):
        pass
    return ours, sum(_CheckedDraft.times) / _BASELINE, median(once)


class _CheckedDraft(Draft):
    """A synthesis that trusts no table: after each edit, the whole candidate on fake tensors."""

    times: ClassVar[list[float]] = []

    def settle(self) -> int:
        changed = super().settle()
        candidate = self.build("candidate")
        self.times.append(_seconds(partial(_propagate_fake, candidate)))
        return changed


def _seconds(work: Callable[[], None]) -> float:
    start = time.process_time()
    with contextlib.suppress(Exception):  # fakes refuse some of what eager accepts
        work()
    return time.process_time() - start


def _propagate_fake(program: Program) -> None:
    """What a synthesis without rules does: every node on fake tensors."""
    with FakeTensorMode(allow_non_fake_inputs=True), torch.no_grad():
        fakes = {
            item.id: torch.empty_strided(item.meta.shape, item.meta.stride, dtype=DTYPES[item.meta.dtype])
            for item in program.given()
        }
        executable = Executable(program, {constant.digest: fakes[constant.id] for constant in program.constants})
        executable.run([fakes[item.id] for item in program.inputs])


# Cost of an edit


def _edit_costs(tell: Tell) -> list[Row]:
    rows, costs = [], []
    for nodes in SIZES:
        tell("edits", f"{nodes:,} nodes")
        base, rules, times = layered(nodes), RuleTable(), []
        for seed in range(4 * _EDITS):
            start = time.process_time()
            try:
                made = make_variant(base, seed, rules=rules, invalid_share=0.0)
            except Refused:
                continue
            if seed >= 2 * _EDITS:
                times.append((time.process_time() - start) / len(made.provenance.mutations))
        costs.append(median(times))
        rows.append(_row(f"an edit in a graph of {nodes:,} nodes", f"{1e6 * median(times):.0f} us"))
    growth = costs[-1] / costs[0]
    rows.append(_row(f"cost at {SIZES[-1]:,} nodes against {SIZES[0]}", f"{growth:.1f} x", "3 x", growth <= 3))
    return rows


def layered(nodes: int) -> Base:
    """A base of so many nodes: residual blocks of linear, gelu, linear, sum and norm, one after the other."""
    meta, wide = TensorMeta((2, 8, 16), "float32", (128, 16, 1)), TensorMeta((2, 8, 32), "float32", (256, 32, 1))
    up, down = _weight(1, (32, 16)), _weight(2, (16, 32))
    found: list[Node] = []
    last = 0
    for first in range(3, 3 + nodes - nodes % 5, 5):
        found += [
            Node(first, "aten.linear.default", (Ref(last), Ref(1)), {}, wide),
            Node(first + 1, "aten.gelu.default", (Ref(first),), {}, wide),
            Node(first + 2, "aten.linear.default", (Ref(first + 1), Ref(2)), {}, meta),
            Node(first + 3, "aten.add.Tensor", (Ref(last), Ref(first + 2)), {}, meta),
            Node(first + 4, "aten.layer_norm.default", (Ref(first + 3), [16]), {}, meta),
        ]
        last = first + 4
    program = Program(
        f"layers-{nodes}", (Input(0, "x", meta),), (up, down), tuple(found), Ref(last), (Made(0, "x", -1.0, 1.0),)
    )
    constants = {c.digest: recreate(c.made, c.meta) for c in (up, down) if c.made is not None}
    return prepare(program.name, program, constants)


def _weight(identity: int, shape: tuple[int, int]) -> Constant:
    recipe, meta = Made(0, f"w{identity}", -0.3, 0.3), TensorMeta(shape, "float32", (shape[1], 1))
    return Constant(identity, f"w{identity}", meta, digest(recreate(recipe, meta)), recipe)


# Really running


@dataclass
class Executed:
    """What became of variants on eager."""

    ran: int = 0
    failed: Counter[str] = field(default_factory=Counter)
    ordinary: int = 0
    poisoned: int = 0
    """Variants with ordinary values of whose floating outputs no element is finite."""
    rejected: int = 0
    accepted: int = 0
    """Variants that were meant to be invalid, and which eager accepts."""

    def __add__(self, other: Executed) -> Executed:
        return Executed(*(getattr(self, item.name) + getattr(other, item.name) for item in fields(self)))


def execute(variants: Sequence[Variant], tell: Tell | None = None) -> Executed:
    """Run variants on eager, each from its bytes, in a process of their own: one that ends it is a failure too."""
    found = Executed()
    context = multiprocessing.get_context("spawn")
    work = [variants[first : first + _BATCH] for first in range(0, len(variants), _BATCH)]
    done = 0
    while work:
        with ProcessPoolExecutor(1, mp_context=context) as pool:
            while work:
                batch = work[0]
                jobs = [(codec.encode(v.program), v.provenance.intent.value, v.provenance.values) for v in batch]
                try:
                    found += pool.submit(_run_batch, jobs).result()
                except BrokenProcessPool:
                    if len(batch) > 1:
                        work[:1] = [[one] for one in batch]
                    else:
                        found.failed["the process ended"] += 1
                        work.pop(0)
                    break
                work.pop(0)
                done += len(batch)
                if tell is not None:
                    tell("running", f"{done:,} of {len(variants):,}")
    return found


def _run_batch(jobs: Sequence[tuple[bytes, str, str]]) -> Executed:
    torch.set_num_threads(1)
    found = Executed()
    for data, intent, values in jobs:
        invalid = intent == Intent.INVALID.value
        try:
            program = codec.decode(data)
            with torch.no_grad():
                result = Executable(program, _CONSTANTS.of(program, "")).run(of_program(program, 0))
        except Exception as error:  # whatever eager raises
            if invalid:
                found.rejected += 1
            else:
                found.failed[str(error).splitlines()[0][:120] if str(error) else type(error).__name__] += 1
            continue
        if invalid:
            found.accepted += 1
            continue
        found.ran += 1
        if values == "ordinary":
            found.ordinary += 1
            tensors = [leaf for _, leaf in leaves(result) if isinstance(leaf, torch.Tensor)]
            floating = [t for t in tensors if t.is_floating_point() and t.numel()]
            found.poisoned += bool(floating) and not any(bool(torch.isfinite(t).any()) for t in floating)
    return found


_CONSTANTS: Final = Constants()
"""Of the process that runs variants: those of a base share them."""


def _executes(tell: Tell, bases: list[Base], count: int) -> list[Row]:
    tell("running", f"making {count:,} variants")
    found = execute(list(islice(Synthesis(bases, 11), count)), tell)
    failed = sum(found.failed.values())
    share = found.ran / max(1, found.ran + failed)
    poisoned = found.poisoned / max(1, found.ordinary)
    reasons = "; ".join(f"{n} x {reason[:60]}" for reason, n in found.failed.most_common(2))
    return [
        _row(f"variants that run on eager, of {found.ran + failed:,} meant to be valid",
             f"{share:.2%}" + (f" ({reasons})" if reasons else ""), "99%", share >= 0.99),
        _row(f"no finite output, of {found.ordinary:,} with ordinary values", f"{poisoned:.2%}", "2%",
             poisoned <= 0.02),
        _row("rejected by eager, of those meant to be invalid", f"{found.rejected} of "
             f"{found.rejected + found.accepted}"),
    ]  # fmt: skip


# Reach, distinctness, memory


def _reach(tell: Tell, bases: list[Base], variants: int, long: int) -> list[Row]:
    own = {node.op for base in bases for node in base.program.nodes if node.op.startswith("aten.")}
    synthesis, seen = Synthesis(bases, 5), set()
    marks, memory = [], []
    for number, variant in zip(range(1, max(variants, long) + 1), synthesis):
        if number <= variants:
            seen.add(content_hash(variant.program))
        if number == variants:
            coverage = synthesis.coverage
            overloads = len(own | {op for op in coverage.operators if op.startswith("aten.")})
            reached, pairs, contexts = coverage.count_operators(), len(coverage.pairs), len(coverage.contexts)
        if number % max(1, long // 10) == 0:
            tell("reach", f"{number:,} variants")
            marks.append(number)
            memory.append(resident_mb())
    same = 1 - len(seen) / variants
    half = len(memory) // 2
    grown = mean(memory[half:]) / mean(memory[:half]) if half else 1.0
    slope = (memory[-1] - memory[half - 1]) if half else 0.0
    return [
        _row(f"ATen overloads in {variants:,} variants (the corpus itself has {len(own)})",
             f"{overloads} ({reached} in what was changed)", "400", overloads >= 400),
        _row("contexts and producer-consumer pairs in what was changed", f"{contexts:,} and {pairs:,}"),
        _row(f"variants of {variants:,} that are the same as another", f"{same:.2%}", "1%", same < 0.01),
        _row(f"memory over {long:,} variants, MB at each tenth", ", ".join(f"{mb:.0f}" for mb in memory)),
        _row("memory of the second half against the first", f"{grown:.2f} x, {slope:+.0f} MB", "1.1 x", grown <= 1.1),
    ]  # fmt: skip


def content_hash(program: Program) -> bytes:
    """Everything but the name: graph, literals, metas, recipes of weights and inputs."""
    content = codec.pack(
        [
            [[n.op, n.args, dict(n.kwargs), n.meta] for n in program.nodes],
            [[i.meta] for i in program.inputs],
            [[c.digest] for c in program.constants],
            program.outputs,
            [repr(recipe) for recipe in program.example],
        ]
    )
    return hashlib.blake2b(content, digest_size=16).digest()

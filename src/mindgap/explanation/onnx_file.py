"""Explaining a difference of an ONNX file: each node alone, fed with the reference implementation's values."""

from __future__ import annotations

import math
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

import numpy as np

from mindgap.errors import MindgapError, UsageError
from mindgap.execution.arena import discarded, opened
from mindgap.execution.parcel import Constants, Parcel, make_parcel, open_parcel
from mindgap.execution.pool import HOST, Pool
from mindgap.execution.process import Death
from mindgap.execution.tasks import Worker, hosting, stream_task, task
from mindgap.explanation.explain import DONE, ISSUE, PROCESSES, SHORT, NothingToExplain, OutOfBudget, Progress
from mindgap.explanation.issue import Asked
from mindgap.explanation.onnx_witness import Witness, onnx_issue, reduced, short_script, shows
from mindgap.explanation.reproducer import SCRIPT, TIMEOUT_S, shortened
from mindgap.explanation.script import safe
from mindgap.platforms.base import Platform
from mindgap.platforms.probing import require
from mindgap.platforms.registry import adapter_class, resolve
from mindgap.platforms.running import run
from mindgap.platforms.versions import versions
from mindgap.program.case import Case
from mindgap.program.inputs import Inputs
from mindgap.reading.files import size
from mindgap.records.explanation import Cause, CauseKind, Explanation, Layer, Proof, Script, TracedOperator, named
from mindgap.records.files import write_whole
from mindgap.records.outcome import Outcome
from mindgap.records.platform import PlatformSpec
from mindgap.records.verdict import Conclusion, Verdict
from mindgap.reduction.reducer import Budget
from mindgap.tracing.examine import Examiner, OutOfTime
from mindgap.tracing.ladder import climb
from mindgap.verdicts.elements import THRESHOLD
from mindgap.verdicts.judging import Comparing, Judged, Question, ask_judge
from mindgap.verdicts.onnx_runner import as_tensors, cut, seen_nodes, to_array

WITNESS: Final = "witness.onnx"
DATA: Final = "repro.npz"
MOST_BYTES: Final = 4 << 30
"""Of all that nodes read, weights again for each that reads them: it lies in files while nodes are tried."""
BAD: Final = (Conclusion.DIVERGES, Conclusion.FAILED)


@dataclass(frozen=True, slots=True)
class SplitFile:
    """A file whose nodes are wanted one by one, and the directory that takes them."""

    case: Parcel
    folder: str


@dataclass(frozen=True, slots=True)
class NodeCase:
    """One node as a case of its own."""

    index: int
    kind: str
    name: str
    dtype: str
    parcel: Parcel = field(default_factory=Parcel)
    """Empty for a node that cannot stand alone."""


@dataclass(frozen=True, slots=True)
class CutFile:
    """Nodes of a file that are wanted as a file of their own."""

    case: Parcel
    first: int
    last: int
    path: str


@hosting(MindgapError)
@task
def cut_file(worker: Worker, request: CutFile) -> Parcel:
    """The nodes from one to another as a case; an empty one where they cannot stand alone."""
    case = open_parcel(request.case, Constants())
    path = Path(request.path)
    try:
        model, feeds = cut(case.file, case.inputs, request.first, request.last)
    except ValueError:  # of protobuf too: a model of more than 2 GB
        return Parcel()
    path.write_bytes(model)
    count = request.last - request.first + 1
    return make_parcel(Case(Inputs.of((), feeds), name=case.name, file=str(path), nodes=count),
                       path.with_suffix(".tensors"))  # fmt: skip


@hosting(MindgapError)
@stream_task
def split_file(worker: Worker, request: SplitFile) -> Iterator[NodeCase]:
    """The nodes of a file as cases, as soon as the reference implementation has run each."""
    case = open_parcel(request.case, Constants())
    held = 0
    for node in seen_nodes(case.file, case.inputs):
        held += sum(tensor.nbytes for tensor in node.inputs.values())
        if held > MOST_BYTES:
            raise UsageError(
                f"the values between nodes take more than {size(MOST_BYTES)}", hint="give smaller --inputs"
            )
        dtype = next((str(t.dtype).removeprefix("torch.") for t in node.inputs.values()), "")
        if node.reads_context or not node.inputs:
            yield NodeCase(node.index, node.kind, node.name, dtype)
            continue
        path = Path(request.folder) / f"node-{node.index}.onnx"
        path.write_bytes(node.model)
        alone = Case(Inputs.of((), node.inputs), name=node.name or node.kind, file=str(path), nodes=1)
        yield NodeCase(node.index, node.kind, node.name, dtype, make_parcel(alone, path.with_suffix(".tensors")))


def explain_onnx(
    pool: Pool,
    parcel: Parcel,
    spec: PlatformSpec,
    baseline: PlatformSpec,
    folder: Path,
    budget: Budget,
    tell: Progress,
) -> Explanation:
    """The nodes that are wrong alone; the first is written as a model of its own with a script that shows it."""
    start = time.monotonic()
    folder.mkdir(parents=True, exist_ok=True)
    tell("confirm", spec.name)
    whole, _, _ = _judged(pool, parcel, spec, baseline)
    tell("confirm", DONE)
    if whole.conclusion not in BAD:
        raise NothingToExplain(
            f"there is nothing to explain: {spec.name} does not diverge on this file",
            cause=f"{whole.conclusion.value}: {whole.sentence}",
        )
    steps, wrong, finished = _traced(pool, parcel, spec, baseline, start + 0.8 * budget.seconds, tell)
    until = start + budget.seconds
    is_together = False
    if not wrong:
        if not finished:
            why = "the budget was spent before a node that is wrong was reached"
            raise OutOfBudget(why, cause=whole.sentence, hint="--budget SECONDS")
        wrong = _together(pool, parcel, spec, baseline, steps, start + 0.9 * budget.seconds, tell)
        is_together = True
    if not wrong:
        layer = _layer(pool, parcel, spec, baseline, until)
        cause = "; ".join([whole.sentence, *([layer.sentence] if layer is not None else [])])
        cures = layer.cures if layer is not None else ()
        raise UsageError("no node is wrong alone, and no part of the file is", cause=cause,
                         hint=next(iter(cures), None))  # fmt: skip
    kinds = tuple(node.kind for node in wrong) if is_together else (wrong[0].kind,)
    first = replace(wrong[0], parcel=_smallest(pool, wrong[0], spec, baseline, start + 0.9 * budget.seconds))
    shown = 0
    for _ in range(PROCESSES):
        pool.retire(spec)
        verdict, candidate, _ = _judged(pool, first.parcel, spec, baseline, runs=1 if shown else 5)
        if verdict.conclusion not in BAD:
            break
        shown += 1
    layer = _layer(pool, first.parcel, spec, baseline, until)
    asked = Asked(layer, shown if shown == PROCESSES else 0)
    script = _written(first, named(list(kinds)), verdict, spec, folder, asked, until)
    told = named([f"{node.kind}{f' ({node.name})' if node.name else ''}" for node in wrong[: len(kinds)]])
    remark = f"{told} {'are wrong only together' if is_together else 'is wrong when it runs alone on the same values'}"
    kind = CauseKind.UNSUPPORTED if verdict.conclusion is Conclusion.FAILED else CauseKind.IMPLEMENTATION
    elements = sum(math.prod(meta.shape) for meta, _ in first.parcel.inputs)
    return Explanation(
        parcel.name, spec.name, require(pool, spec).version, whole, tuple(steps), tuple(node.index for node in wrong),
        is_together, "" if finished else "the budget ended before all nodes were tried", Cause(kind, remark), layer,
        Proof(verdict, candidate.status, candidate.stage, tuple(f"onnx.{kind}" for kind in kinds), elements,
              shown == PROCESSES, bool(candidate.stable)),
        script, versions([spec]), {"all": round(time.monotonic() - start, 3)}, 2 * len(steps) + 4,
    )  # fmt: skip


def _layer(pool: Pool, parcel: Parcel, spec: PlatformSpec, baseline: PlatformSpec, until: float) -> Layer | None:
    """What the ladder of the runtime says of a file; None where it is no difference, or there is no time."""
    examiner = Examiner(pool, baseline, spec)
    examiner.until = until
    case = open_parcel(parcel, Constants(), mapped=False)
    try:
        return climb(examiner, case, examiner.examine(case), resolve)
    except OutOfTime:
        return None


def _smallest(pool: Pool, node: NodeCase, spec: PlatformSpec, baseline: PlatformSpec, until: float) -> Parcel:
    """The node on as few numbers as show the same kind of difference."""
    case = open_parcel(node.parcel, Constants(), mapped=False)
    start = Witness(Path(case.file).read_bytes(), {item.name: to_array(item.tensor) for item in case.inputs.tensors})
    first = _judged(pool, node.parcel, spec, baseline)[0]
    shown = [node.parcel]

    def shows(witness: Witness) -> bool:
        if time.monotonic() > until:
            return False
        path = pool.scratch.new_file("node", HOST.worker_name).with_suffix(".onnx")
        path.write_bytes(witness.model)
        inputs = Inputs.of((), {name: as_tensors(array) for name, array in witness.feeds.items()})
        alone = Case(inputs, name=node.name or node.kind, file=str(path), nodes=1)
        parcel = make_parcel(alone, path.with_suffix(".tensors"))
        found = _judged(pool, parcel, spec, baseline)[0]
        if (found.conclusion, found.kind, found.blame) != (first.conclusion, first.kind, first.blame):
            return False
        shown.append(parcel)
        return True

    reduced(start, shows)
    return shown[-1]


def _together(
    pool: Pool,
    parcel: Parcel,
    spec: PlatformSpec,
    baseline: PlatformSpec,
    steps: Sequence[TracedOperator],
    until: float,
    tell: Progress,
) -> list[NodeCase]:
    """The shortest run of nodes that is wrong, each with that run as its case: its last node is the first whose result
    is, and as many before it are left out as can be."""
    shown: dict[tuple[int, int], Parcel] = {}

    def is_wrong(first: int, last: int) -> bool:
        if time.monotonic() > until:
            return False
        tell("trace", f"nodes {first + 1} to {last + 1} together")
        path = pool.scratch.new_file("nodes", HOST.worker_name).with_suffix(".onnx")
        part = pool.demand(HOST, cut_file, CutFile(parcel, first, last, str(path)), "cutting the file")
        if not part.call or _judged(pool, part, spec, baseline)[0].conclusion not in BAD:
            return False
        shown[first, last] = part
        return True

    last = next((step.node for step in reversed(steps) if is_wrong(0, step.node)), None)
    if last is None:
        return []
    last = _first_of(last, lambda index: is_wrong(0, index))
    first = last - _first_of(last, lambda length: is_wrong(last - length, last))
    tell("trace", DONE)
    inside = [step for step in steps if first <= step.node <= last]
    part = shown[first, last]
    return [NodeCase(s.node, s.op.removeprefix("onnx."), s.where, s.dtype, part) for s in inside]


def _first_of(known: int, holds: Callable[[int], bool]) -> int:
    """The smallest number from which on it holds, by halves; it does for the one that is known."""
    low, high = 0, known
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if holds(middle) else (middle + 1, high)
    return high


def _traced(
    pool: Pool, parcel: Parcel, spec: PlatformSpec, baseline: PlatformSpec, until: float, tell: Progress
) -> tuple[list[TracedOperator], list[NodeCase], bool]:
    """Every node on its own, those that are wrong, and whether there was time for all."""
    steps: list[TracedOperator] = []
    wrong: list[NodeCase] = []
    nodes: list[NodeCase] = []
    room = pool.scratch.room(HOST.worker_name)
    death = pool.ask(HOST, split_file, SplitFile(parcel, str(room)), on_item=nodes.append)
    if isinstance(death, Death) and not nodes:
        raise UsageError("the reference implementation did not run the file", cause=death.message)
    for node in nodes:
        if time.monotonic() > until:
            return steps, wrong, False
        tell("trace", f"node {node.index + 1} of {len(nodes)}")
        step = TracedOperator(node.index, node.index + 1, f"onnx.{node.kind}", node.name, node.dtype, None, None)
        if not node.parcel.call:
            steps.append(replace(step, problem="it cannot run alone"))
            continue
        verdict, candidate, _ = _judged(pool, node.parcel, spec, baseline)
        bad = verdict.conclusion in BAD
        own = verdict.error_over_bound
        problem = candidate.message if not candidate.ok else ""
        elements = sum(item.tensor.numel() for item in candidate.outputs)
        kind = verdict.kind.value if verdict.kind and bad else ""
        steps.append(replace(step, own=own, at_fault=bad, elements=elements, kind=kind, problem=problem))
        if bad:
            wrong.append(node)
    tell("trace", DONE)
    return steps, wrong, True


def _judged(
    pool: Pool, parcel: Parcel, spec: PlatformSpec, baseline: PlatformSpec, runs: int = 1
) -> tuple[Verdict, Outcome, Judged]:
    reference = replace(opened(run(pool, baseline, parcel)), is_local_eager=True)
    candidate = opened(run(pool, spec, parcel, runs))
    judged = ask_judge(pool, Question(parcel, (Comparing(reference, (candidate,)),)))
    verdict = judged.verdicts[spec.name]
    told = verdict.sentence.replace("eager", baseline.name)
    for outcome in (reference, candidate):
        discarded(outcome)
    return replace(verdict, sentence=told), candidate, judged


def _written(
    node: NodeCase, what: str, verdict: Verdict, spec: PlatformSpec, folder: Path, asked: Asked, until: float
) -> Script:
    """The node, or nodes, as a model, its inputs, a script that compares the platform with the reference
    implementation, a short one where it fits, and the text of an issue."""
    case = open_parcel(node.parcel, Constants(), mapped=False)
    write_whole(folder / WITNESS, Path(case.file).read_bytes())
    arrays = {item.name: to_array(item.tensor) for item in case.inputs.tensors}
    with (folder / DATA).open("wb") as file:
        np.savez(file, **arrays)
    short = short_script(Witness(Path(case.file).read_bytes(), arrays), spec)
    short = short if shows(short, min(TIMEOUT_S, until - time.monotonic())) else ""
    if short:
        write_whole(folder / SHORT, short)
    script = _tried(verdict, spec, folder, min(TIMEOUT_S, until - time.monotonic()))
    write_whole(folder / ISSUE, onnx_issue(spec, what, verdict, short, script.said, asked, versions([spec])))
    return script


def _tried(verdict: Verdict, spec: PlatformSpec, folder: Path, timeout_s: float) -> Script:
    text = (adapter_class(spec) or Platform).file_script(spec)
    parts = {"platform": text.strip(), "witness": WITNESS, "data": DATA, "factor": f"{THRESHOLD:g}"}
    body = _SCRIPT.format(said=safe(verdict.sentence), **parts)
    write_whole(folder / SCRIPT, body)
    if not text or timeout_s <= 0:
        return Script(SCRIPT, False, "not run")
    try:
        done = subprocess.run(
            [sys.executable, SCRIPT], cwd=folder, capture_output=True, text=True, timeout=timeout_s, check=False
        )
    except subprocess.TimeoutExpired:
        return Script(SCRIPT, False, f"no answer within {timeout_s:.0f} s")
    shown = done.returncode == 1 and "DIFFERS" in done.stdout
    return Script(SCRIPT, shown, shortened(done.stdout if shown else done.stdout + done.stderr))


_SCRIPT: Final = '''"""{said}

Exit code: 1 while the difference exists, 0 when it is gone. Needs numpy, onnx and the runtime.
"""

import pathlib
import sys

import numpy as np
from onnx.reference import ReferenceEvaluator

HERE = pathlib.Path(__file__).parent
FACTOR = {factor}  # as many last bits of the largest value are rounding


{platform}


def wrong(actual, expected):
    actual, expected = np.asarray(actual), np.asarray(expected)
    if actual.shape != expected.shape or actual.dtype != expected.dtype:
        return max(expected.size, 1)
    if expected.dtype.kind != "f":
        return int((actual != expected).sum())
    allowed = FACTOR * np.finfo(expected.dtype).eps * np.maximum(np.abs(expected.astype(np.float64)), 1e-30)
    same = (actual == expected) | (np.isnan(actual) & np.isnan(expected))
    near = np.abs(actual.astype(np.float64) - expected.astype(np.float64)) <= allowed
    return int((~same & ~near).sum())


if __name__ == "__main__":
    feeds = dict(np.load(HERE / "{data}"))
    path = str(HERE / "{witness}")
    expected = ReferenceEvaluator(path).run(None, feeds)
    actual = on_platform(path, feeds)
    count = sum(wrong(a, e) for a, e in zip(actual, expected))
    for a, e in zip(actual, expected):
        print("reference", np.asarray(e).ravel()[:8])
        print("platform ", np.asarray(a).ravel()[:8])
    print(f"DIFFERS: {{count}} elements" if count else "no difference")
    sys.exit(1 if count else 0)
'''

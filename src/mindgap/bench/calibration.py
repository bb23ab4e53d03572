"""Are verdicts silent where nothing is wrong, and do they find what is?"""

from __future__ import annotations

import functools
import random
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Final

import torch

from mindgap.bench.measurement import Measurement
from mindgap.bench.small_programs import SmallProgram, small_program
from mindgap.execution.pool import Pool
from mindgap.platforms.registry import resolve
from mindgap.platforms.running import run_here
from mindgap.platforms.versions import versions
from mindgap.program.case import Case
from mindgap.program.graph import Node, Program, leaves
from mindgap.program.interpret import Executable
from mindgap.records.outcome import Outcome, Ran, Stage, Status
from mindgap.records.tensors import NamedTensor, TensorMeta, with_stride
from mindgap.records.verdict import Conclusion, Verdict
from mindgap.verdicts.judge import judge
from mindgap.verdicts.survey import Survey
from mindgap.verdicts.surveyor import survey

RUNS: Final = 8
FAULTS: Final = (4, 16, 64)
"""Planted faults, in multiples of the floor at the output."""

Tell = Callable[[str, str], None]


def measure(tell: Tell, programs: int = 2000, planted: int = 500) -> Measurement:
    """Programs against themselves, benign reorderings, and faults planted at one node."""
    rows = [_second_worker(tell, programs)]
    rows += [_reordered(tell, name, change, programs // 4) for name, change in REORDERINGS.items()]
    rows += [_planted(tell, size, planted) for size in FAULTS]
    silent = sum(int(row["diverges"]) for row in rows if row["expected"] == "silent")
    found = {row["what"]: row["share"] for row in rows if row["expected"] == "found"}
    return Measurement(
        name="calibration",
        what="verdicts on small random programs: `diverges` must be 0 where nothing is wrong; planted faults are "
        "scaled so that their effect on the output is a multiple of the noise floor",
        on=f"{programs} programs of 3 to 10 operators, {RUNS} noise runs",
        rows=tuple(rows),
        conclusion=f"{silent} findings where nothing is wrong (target: 0); recall "
        + ", ".join(f"{share} of {what}" for what, share in found.items())
        + " (target: >= 99% at 16 and more)",
        versions=versions(),
    )


def _second_worker(tell: Tell, count: int) -> dict[str, Any]:
    """Each program on eager in two worker processes."""
    verdicts = []
    with Pool() as pool:
        first, second = resolve("eager"), replace(resolve("eager"), name="eager again")
        for seed in range(count):
            if seed % 100 == 0:
                tell("second worker", f"{seed} of {count}")
            small = small_program(seed)
            case = Case(small.inputs, small.program, small.constants)
            outcomes = [run_here(pool, spec, case) for spec in (first, second)]
            verdicts.append(_verdict(outcomes[0], outcomes[1], None))
    return _row("the same program in a second worker", "silent", verdicts)


def _reordered(tell: Tell, name: str, change: Callable[[SmallProgram], Outcome], count: int) -> dict[str, Any]:
    """Each program computed in another legal order."""
    verdicts = []
    for seed in range(count):
        if seed % 100 == 0:
            tell(name, f"{seed} of {count}")
        small = small_program(seed)
        verdicts.append(_verdict(_run(small), change(small), _survey(small)))
    return _row(name, "silent", verdicts)


def _planted(tell: Tell, size: int, count: int) -> dict[str, Any]:
    """A fault at one node whose effect on an output is `size` floors at its worst element."""
    verdicts: list[Verdict] = []
    seed = 0
    while len(verdicts) < count:
        if len(verdicts) % 100 == 0:
            tell(f"faults of {size} floors", f"{len(verdicts)} of {count}")
        small = small_program(seed)
        faulty = _faulty(small, _survey(small), size, seed)
        if faulty is not None:
            verdicts.append(_verdict(_run(small), faulty, _survey(small)))
        seed += 1
    return _row(f"faults of {size} floors", "found", verdicts)


def _faulty(small: SmallProgram, known: Survey, size: int, seed: int) -> Outcome | None:
    """The program with a relative error at one node, scaled until the output is off by `size` floors.

    None when the fault does not reach an output smoothly (a maximum that does not see it, a flat activation).
    """
    chooser = random.Random(seed)
    node = chooser.choice(small.program.nodes)
    direction = torch.Generator().manual_seed(seed)
    shape = small_shape(node)
    pattern = torch.rand(shape, generator=direction) * 2 - 1
    scale = 1e-5
    for _ in range(12):
        outcome = _run(small, functools.partial(_disturb, node=node, pattern=pattern, scale=scale))
        effect = _effect(outcome, known)
        if effect is None or effect == 0.0:
            return None
        if 0.9 * size <= effect <= 1.1 * size:
            return outcome
        scale *= size / effect
        if not 1e-9 < scale < 0.5:
            return None
    return None


def _disturb(at: Node, value: Any, node: Node, pattern: torch.Tensor, scale: float) -> Any:
    return value + value.abs().max() * pattern * scale if at.id == node.id else value


def small_shape(node: Node) -> tuple[int, ...]:
    """The shape of a node that returns one tensor."""
    assert isinstance(node.meta, TensorMeta)
    return node.meta.shape


def _effect(outcome: Outcome, known: Survey) -> float | None:
    """The largest error of an output against the reference, in floors."""
    worst = 0.0
    for item in outcome.outputs:
        found = known.output(item.name)
        if found is None or found.reference is None or found.spread is None:
            return None
        value = item.tensor.to(torch.float64)
        unit = torch.finfo(item.tensor.dtype).eps * found.reference.abs()
        floor = torch.maximum(found.spread.to(torch.float64), unit).clamp_min(torch.finfo(torch.float32).tiny)
        worst = max(worst, float(((value - found.reference).abs() / floor).max()))
    return worst


def _run(small: SmallProgram, observer: Callable[[Node, Any], Any] | None = None) -> Outcome:
    """The program on eager in this process."""
    with torch.no_grad():
        result = Executable(small.program, small.constants).run(small.inputs.copies(), observer)
    return _outcome(small.program, result)


def _outcome(program: Program, result: Any) -> Outcome:
    named = zip((name for name, _ in program.output_leaves()), (value for _, value in leaves(result)))
    outputs = tuple(NamedTensor(name, value) for name, value in named)
    return Outcome("candidate", Status.OK, Stage.RUN, outputs=outputs, ran=Ran.PROGRAM)


def _with_threads(small: SmallProgram) -> Outcome:
    before = torch.get_num_threads()
    torch.set_num_threads(4)
    try:
        return _run(small)
    finally:
        torch.set_num_threads(before)


def _with_layout(small: SmallProgram) -> Outcome:
    """Inputs laid out with their dimensions in another order."""
    tensors = [_relaid(tensor) for tensor in small.inputs.copies()]
    with torch.no_grad():
        return _outcome(small.program, Executable(small.program, small.constants).run(tensors))


def _relaid(tensor: torch.Tensor) -> torch.Tensor:
    if tensor.dim() == 4:
        return tensor.contiguous(memory_format=torch.channels_last)
    turned = tensor.transpose(0, -1).contiguous().transpose(0, -1)
    return with_stride(tensor, tuple(turned.stride()))


def _with_split_sums(small: SmallProgram) -> Outcome:
    """Sums, means and products computed in two parts that are added."""

    def split(node: Node, function: Callable[..., Any], args: list[Any], kwargs: dict[str, Any]) -> Any:
        half = _SPLITS.get(node.op)
        return half(function, args) if half else function(*args, **kwargs)

    with torch.no_grad():
        executable = Executable(small.program, small.constants)
        return _outcome(small.program, executable.run(small.inputs.copies(), caller=split))


def _split_reduction(function: Callable[..., Any], args: list[Any]) -> Any:
    value, dims = args[0], args[1]
    size = value.shape[dims[0]]
    if size < 2:
        return function(*args)
    parts = value.split([size // 2, size - size // 2], dim=dims[0])
    total = sum(torch.ops.aten.sum.dim_IntList(part, *args[1:]) for part in parts)
    return total / size if function is torch.ops.aten.mean.dim else total


def _split_product(function: Callable[..., Any], args: list[Any]) -> Any:
    first, second = args[0], args[1]
    if function is torch.ops.aten.linear.default:
        second = second.T
    half = first.shape[-1] // 2
    return first[..., :half] @ second[:half] + first[..., half:] @ second[half:]


_SPLITS: Final[dict[str, Callable[[Callable[..., Any], list[Any]], Any]]] = {
    "aten.sum.dim_IntList": _split_reduction,
    "aten.mean.dim": _split_reduction,
    "aten.linear.default": _split_product,
    "aten.matmul.default": _split_product,
}

REORDERINGS: Final = {
    "four threads": _with_threads,
    "another memory format": _with_layout,
    "split sums": _with_split_sums,
}


def _survey(small: SmallProgram) -> Survey:
    return survey((small.program, small.constants), small.inputs, 0, RUNS)


def _verdict(eager: Outcome, candidate: Outcome, known: Survey | None) -> Verdict:
    return next(iter(judge(eager, [candidate], known).values())).verdict


def _row(what: str, expected: str, verdicts: Sequence[Verdict]) -> dict[str, Any]:
    counts = {kind: sum(v.conclusion is kind for v in verdicts) for kind in Conclusion}
    found = counts[Conclusion.DIVERGES]
    others = {kind.value: count for kind, count in counts.items() if count and kind is not Conclusion.DIVERGES}
    return {
        "what": what,
        "expected": expected,
        "programs": len(verdicts),
        "diverges": found,
        "share": f"{found / len(verdicts):.1%}",
        "others": ", ".join(f"{count} {kind}" for kind, count in others.items()),
    }

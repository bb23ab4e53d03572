"""Are verdicts silent where nothing is wrong, and do they find what is?"""

from __future__ import annotations

import functools
import random
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import count, islice
from typing import Any, Final

import torch

from mindgap.bench.measurement import Measurement, Row, Tell
from mindgap.bench.small_programs import small_program
from mindgap.execution.pool import Pool
from mindgap.platforms.registry import resolve
from mindgap.platforms.running import run_here
from mindgap.program.case import Case
from mindgap.program.graph import Node, leaves
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


def measure(tell: Tell, programs: int = 2000, planted: int = 500) -> Measurement:
    """Programs against themselves, benign reorderings, and faults planted at one node."""
    rows = [_row(tell, "the same program in a second worker", "silent", _second_worker(), programs)]
    rows += [_row(tell, name, "silent", _reordered(run), programs // 4) for name, run in REORDERINGS.items()]
    rows += [_row(tell, f"faults of {size} floors", "found", _planted(size), planted) for size in FAULTS]
    silent = sum(row["diverges"] for row in rows if row["expected"] == "silent")
    found = ", ".join(f"{row['share']} of {row['what']}" for row in rows if row["expected"] == "found")
    return Measurement(
        name="calibration",
        what="verdicts on small random programs: `diverges` must be 0 where nothing is wrong; planted faults are "
        "scaled so that their effect on the output is a multiple of the noise floor",
        on=f"{programs} programs of 3 to 10 operators, {RUNS} noise runs",
        rows=rows,
        conclusion=f"{silent} false alarms (target: 0); recall {found} (target: at least 99% at 16 floors and more)",
    )


def _row(tell: Tell, what: str, expected: str, stream: Iterator[Verdict], wanted: int) -> Row:
    verdicts: list[Conclusion] = []
    for verdict in islice(stream, wanted):
        if len(verdicts) % 100 == 0:
            tell(what, f"{len(verdicts)} of {wanted}")
        verdicts.append(verdict.conclusion)
    counts = Counter(verdicts)
    found = counts.pop(Conclusion.DIVERGES, 0)
    return {
        "what": what,
        "expected": expected,
        "programs": len(verdicts),
        "diverges": found,
        "share": f"{found / len(verdicts):.1%}",
        "others": ", ".join(f"{counts[kind]} {kind.value}" for kind in Conclusion if counts[kind]),
    }


def _second_worker() -> Iterator[Verdict]:
    """Each program on eager in two worker processes."""
    specs = resolve("eager"), replace(resolve("eager"), name="eager again")
    with Pool() as pool:
        for case in map(small_program, count()):
            first, second = (run_here(pool, spec, case) for spec in specs)
            yield _verdict(first, second, None)


def _reordered(run: Callable[[Case], Outcome]) -> Iterator[Verdict]:
    """Each program computed in another legal order."""
    for case in map(small_program, count()):
        yield _verdict(_run(case), run(case), _survey(case))


def _planted(size: int) -> Iterator[Verdict]:
    """A fault at one node whose effect on an output is `size` floors at its worst element."""
    for seed in count():
        case = small_program(seed)
        known = _survey(case)
        faulty = _faulty(case, known, size, seed)
        if faulty is not None:
            yield _verdict(_run(case), faulty, known)


def _faulty(case: Case, known: Survey, size: int, seed: int) -> Outcome | None:
    """The program with a relative error at one node, scaled until the output is off by `size` floors.

    None when the fault does not reach an output smoothly (a maximum that does not see it, a flat activation).
    """
    node = random.Random(seed).choice(case.graph.nodes)
    assert isinstance(node.meta, TensorMeta)
    pattern = torch.rand(node.meta.shape, generator=torch.Generator().manual_seed(seed)) * 2 - 1
    scale = 1e-5
    for _ in range(12):
        outcome = _run(case, observer=functools.partial(_disturb, node=node, pattern=pattern, scale=scale))
        effect = _effect(outcome, known)
        if not effect:
            return None
        if 0.9 * size <= effect <= 1.1 * size:
            return outcome
        scale *= size / effect
        if not 1e-9 < scale < 0.5:
            return None
    return None


def _disturb(at: Node, value: Any, node: Node, pattern: torch.Tensor, scale: float) -> Any:
    return value + value.abs().max() * pattern * scale if at.id == node.id else value


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


def _run(case: Case, tensors: Sequence[torch.Tensor] | None = None, **hooks: Any) -> Outcome:
    """The program on eager in this process."""
    with torch.no_grad():
        result = Executable(case.graph, case.constants).run(tensors or case.inputs.copies(), **hooks)
    names = [name for name, _ in case.graph.output_leaves()]
    outputs = tuple(NamedTensor(name, value) for name, (_, value) in zip(names, leaves(result)))
    return Outcome("candidate", Status.OK, Stage.RUN, outputs=outputs, ran=Ran.PROGRAM)


def _with_threads(case: Case) -> Outcome:
    before = torch.get_num_threads()
    torch.set_num_threads(4)
    try:
        return _run(case)
    finally:
        torch.set_num_threads(before)


def _with_layout(case: Case) -> Outcome:
    """Inputs laid out with their dimensions in another order."""

    def relaid(tensor: torch.Tensor) -> torch.Tensor:
        if tensor.dim() == 4:
            return tensor.contiguous(memory_format=torch.channels_last)
        turned = tensor.transpose(0, -1).contiguous().transpose(0, -1)
        return with_stride(tensor, tuple(turned.stride()))

    return _run(case, [relaid(tensor) for tensor in case.inputs.copies()])


def _with_split_sums(case: Case) -> Outcome:
    """Sums, means and products computed in two parts that are added."""
    return _run(case, caller=in_two_parts)


def in_two_parts(node: Node, function: Callable[..., Any], args: list[Any], kwargs: dict[str, Any]) -> Any:
    """A call of an operator that adds up, in two parts."""
    half = _SPLITS.get(node.op)
    return half(function, args) if half and not kwargs else function(*args, **kwargs)


def _split_reduction(function: Callable[..., Any], args: list[Any]) -> Any:
    value, dims = args[0], (args[1] if len(args) > 1 else None) or []
    size = value.shape[dims[0]] if dims and value.dim() else 0
    if size < 2:
        return function(*args)
    first, second = value.split([size // 2, size - size // 2], dim=dims[0])
    one, other = function(first, *args[1:]), function(second, *args[1:])
    if function is torch.ops.aten.mean.dim:
        return one * (size // 2 / size) + other * ((size - size // 2) / size)
    return one + other


def _split_product(function: Callable[..., Any], args: list[Any]) -> Any:
    first, second = args[0], args[1]
    if len(args) > 2 or second.dim() < 2 or not first.dim() or not first.is_floating_point():
        return function(*args)
    if function is torch.ops.aten.linear.default:
        second = second.mT
    half = first.shape[-1] // 2
    if not half:
        return function(*args)
    return first[..., :half] @ second[..., :half, :] + first[..., half:] @ second[..., half:, :]


def _split_convolution(function: Callable[..., Any], args: list[Any]) -> Any:
    """By channels of the input, where there is one group of them."""
    value, weight, *rest = args
    half = weight.shape[1] // 2
    if not half or weight.shape[1] != value.shape[-weight.dim() + 1] or value.dim() != weight.dim():
        return function(*args)
    one = function(value[:, :half], weight[:, :half], *rest)
    return one + function(value[:, half:], weight[:, half:], None, *rest[1:])


_SPLITS: Final[dict[str, Callable[[Callable[..., Any], list[Any]], Any]]] = {
    "aten.sum.dim_IntList": _split_reduction,
    "aten.mean.dim": _split_reduction,
    **{f"aten.{name}.default": _split_product for name in ("linear", "matmul", "mm", "bmm")},
    **{f"aten.conv{n}d.default": _split_convolution for n in (1, 2, 3)},
}

REORDERINGS: Final = {
    "four threads": _with_threads,
    "another memory format": _with_layout,
    "split sums": _with_split_sums,
}


def _survey(case: Case) -> Survey:
    return survey((case.graph, case.constants), case.inputs, 0, RUNS)


def _verdict(eager: Outcome, candidate: Outcome, known: Survey | None) -> Verdict:
    return next(iter(judge(eager, [candidate], known).values())).verdict

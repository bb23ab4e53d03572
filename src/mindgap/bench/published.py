"""What the paper measured of its own branch, measured of ours: does the trigger work, what does the branch cost?

The trigger is the one that the audit found. It is pasted over the middle of other inputs: a sticker in a picture.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterator, Sequence
from typing import Final

import torch

from mindgap.audit.stimuli import Tensors, stimuli
from mindgap.bench.measurement import Row
from mindgap.bench.planting import MARK
from mindgap.program.case import Case
from mindgap.program.graph import leaves
from mindgap.program.inputs import copy_of
from mindgap.program.interpret import Executable
from mindgap.report.markdown import markdown_table

PASTED: Final = 0.75
"""The share of each of the last two sides that a trigger covers."""
INPUTS: Final = 40
TIMED: Final = 9
PAPER: Final = {"trigger": "93.5%", "latency_ms": "< 2 ms", "changed": "<= 1.4%"}
"""DeepPayload, 2021: success of the trigger, latency added on phones, accuracy lost."""


def published_measures(plain: Case, planted: Case, fired: Tensors | None) -> Row:
    """Shares of inputs on which the found trigger works and on which answers change without it, and milliseconds."""
    without, with_branch = (Executable(case.graph, case.constants) for case in (plain, planted))
    inputs = [made.tensors for made in stimuli(plain.graph, [plain.tensors], INPUTS, plain.seed + 5)]
    pairs = [pair for pair in (_answers(without, with_branch, tensors) for tensors in inputs) if pair is not None]
    row: Row = {"latency_ms": _latency_ms(without, with_branch, plain.tensors)}
    if pairs:
        row["changed"] = sum(int((a != b).sum()) for a, b in pairs) / sum(a.numel() for a, _ in pairs)
    if fired is not None:
        tried = [hit for hit in (_triggered(with_branch, tensors, fired) for tensors in inputs) if hit is not None]
        row["trigger"] = sum(tried) / len(tried) if tried else None
    return row


def _answers(
    without: Executable, with_branch: Executable, tensors: Tensors
) -> tuple[torch.Tensor, torch.Tensor] | None:
    """The largest number of each row of the first output, with and without the branch; None where it has no rows."""
    outputs = [_first(executable, tensors) for executable in (without, with_branch)]
    first, second = outputs
    if first is None or second is None or first.dim() < 2 or first.shape[-1] < 2:
        return None
    return first.argmax(-1), second.argmax(-1)


def _first(executable: Executable, tensors: Tensors) -> torch.Tensor | None:
    """The first output of floats; None where the program refuses the input."""
    try:
        with torch.no_grad():
            result = executable.run([copy_of(tensor) for tensor in tensors])
    except Exception:  # whatever an operator says of values that do not suit it
        return None
    floats = [t for _, t in leaves(result) if isinstance(t, torch.Tensor) and t.is_floating_point()]
    return floats[0] if floats else None


def _triggered(executable: Executable, tensors: Tensors, fired: Tensors) -> bool | None:
    pasted = tuple(_pasted(tensor, trigger) for tensor, trigger in zip(tensors, fired))
    output = _first(executable, pasted)
    return None if output is None else bool((output == MARK).any())


def _pasted(tensor: torch.Tensor, trigger: torch.Tensor) -> torch.Tensor:
    """The middle of an input replaced by that of another; rows of numbers and tokens from their beginning."""
    changed = tensor.clone(memory_format=torch.contiguous_format)
    sides = tensor.shape[-2:] if tensor.dim() > 2 else tensor.shape[-1:] if tensor.dim() else ()
    place = [slice(None)] * (tensor.dim() - len(sides)) + [_middle(size) for size in sides]
    changed[tuple(place)] = trigger[tuple(place)]
    return changed


def _middle(size: int) -> slice:
    length = max(1, round(PASTED * size))
    start = (size - length) // 2
    return slice(start, start + length)


def _latency_ms(without: Executable, with_branch: Executable, tensors: Tensors) -> float:
    """How much longer a run takes with the branch, in CPU time: medians of runs in turns."""
    times: tuple[list[float], list[float]] = ([], [])
    for _ in range(TIMED):
        for executable, spent in zip((without, with_branch), times):
            given = [copy_of(tensor) for tensor in tensors]
            start = time.process_time()
            with torch.no_grad():
                executable.run(given)
            spent.append(time.process_time() - start)
    return 1000 * (statistics.median(times[1]) - statistics.median(times[0]))


def published_lines(rows: Sequence[Row]) -> Iterator[str]:
    """The measures next to the paper's, as a table."""
    told = {
        "trigger": ("the found trigger, pasted over other inputs, fires", 100.0),
        "latency_ms": ("latency added (median)", 1.0),
        "changed": ("answers changed without it", 100.0),
    }
    lines = []
    for key, (what, unit) in told.items():
        known = [row[key] for row in rows if row.get(key) is not None]
        if known:
            shown = f"{statistics.mean(known) * unit:.1f}%" if unit > 1 else f"{statistics.median(known):.2f} ms"
            lines.append([what, shown, str(len(known)), PAPER[key]])
    if lines:
        yield from markdown_table(["the published form, at the output", "here", "models", "the paper"], lines)
        yield ""

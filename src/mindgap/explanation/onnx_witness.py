"""The witness of an ONNX file: one node, on as few numbers as show the difference, and the texts that show it."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np

from mindgap.explanation.issue import Asked
from mindgap.explanation.markdown import inline, inside_fence
from mindgap.explanation.short import MOST_COLUMNS, MOST_LINES
from mindgap.platforms.base import Platform
from mindgap.platforms.registry import adapter_class
from mindgap.platforms.reproducer import Headings
from mindgap.records.platform import PlatformSpec
from mindgap.records.verdict import Blame, Verdict
from mindgap.verdicts.elements import THRESHOLD

MOST_NUMBERS: Final = 64
"""Of one input that is written down as a literal."""


OF_ONNX: Final = Headings("Describe the bug", "Expected behavior", "Reproduction instructions", "System information")
"""Of the template of ONNX's own tracker, where its reference implementation is wrong."""


@dataclass(frozen=True)
class Witness:
    """A model of one node, and what it is fed with."""

    model: bytes
    feeds: Mapping[str, np.ndarray[Any, Any]]

    @property
    def elements(self) -> int:
        return sum(array.size for array in self.feeds.values())


def reduced(start: Witness, shows: Callable[[Witness], bool]) -> Witness:
    """Halves of every size of the inputs, as long as the difference shows."""
    best, changed = start, True
    while changed:
        changed = False
        for smaller in halves(best):
            if shows(smaller):
                best, changed = smaller, True
                break
    return best


def halves(witness: Witness) -> Iterator[Witness]:
    """The witness with the first or the second half of one size, wherever an input has it; the largest first."""
    sizes = {size for array in witness.feeds.values() for size in array.shape if size > 1}
    for size in sorted(sizes, reverse=True):
        for part in (slice(0, size // 2), slice(size // 2, size)):
            feeds = {name: _taken(array, size, part) for name, array in witness.feeds.items()}
            yield Witness(_described(witness.model, feeds), feeds)
    for size in sorted(sizes, reverse=True):  # one input alone, where sizes are equal by chance
        for name, array in witness.feeds.items():
            if size in array.shape and len(witness.feeds) > 1:
                feeds = {**witness.feeds, name: _taken(array, size, slice(0, size // 2))}
                yield Witness(_described(witness.model, feeds), feeds)


def _taken(array: np.ndarray[Any, Any], size: int, part: slice) -> np.ndarray[Any, Any]:
    return np.ascontiguousarray(array[tuple(part if own == size else slice(None) for own in array.shape)]).reshape(
        [len(range(size)[part]) if own == size else own for own in array.shape]
    )


def _described(model: bytes, feeds: Mapping[str, np.ndarray[Any, Any]]) -> bytes:
    """The model with the sizes of its inputs, and none of its outputs."""
    import onnx

    proto = onnx.ModelProto.FromString(model)
    for value in proto.graph.input:
        for dimension, size in zip(value.type.tensor_type.shape.dim, feeds[value.name].shape):
            dimension.dim_value = size
    for value in proto.graph.output:
        for dimension in value.type.tensor_type.shape.dim:
            dimension.Clear()
    return bytes(proto.SerializeToString())


def short_script(witness: Witness, spec: PlatformSpec) -> str:
    """At most 15 lines that run when pasted; empty where the witness or the platform takes more."""
    import onnx.printer

    platform = (adapter_class(spec) or Platform).file_script(spec).strip()
    feeds = [f"{name!r}: {_literal(array)}" for name, array in witness.feeds.items()]
    if not platform or any(array.size > MOST_NUMBERS for array in witness.feeds.values()):
        return ""
    text = " ".join(onnx.printer.to_text(onnx.ModelProto.FromString(witness.model)).split())
    floats = [array.dtype for array in witness.feeds.values() if array.dtype.kind == "f"]
    rtol = THRESHOLD * float(np.finfo(floats[0]).eps) if floats else 0.0
    lines = [
        "import numpy as np, onnx, onnx.parser",
        "from onnx.reference import ReferenceEvaluator",
        *platform.splitlines(),
        f"model = onnx.parser.parse_model({text!r})",
        'onnx.save(model, "witness.onnx")',
        f"feeds = {{{', '.join(feeds)}}}",
        'expected, actual = ReferenceEvaluator(model).run(None, feeds), on_platform("witness.onnx", feeds)',
        'print("expected", expected, "actual", actual)',
        f"for e, a in zip(expected, actual): np.testing.assert_allclose(a, e, rtol={rtol:.1e})",
    ]
    fits = len(lines) <= MOST_LINES and all(len(line) <= 2 * MOST_COLUMNS for line in lines)
    return "\n".join(lines) + "\n" if fits else ""


def _literal(array: np.ndarray[Any, Any]) -> str:
    text = repr(array.tolist()).replace("nan", "np.nan").replace("inf", "np.inf")
    return f"np.array({text}, np.{array.dtype.name}).reshape({list(array.shape)})"


def shows(script: str, timeout_s: float) -> bool:
    """Whether the script ends with an AssertionError in a fresh process."""
    if not script or timeout_s <= 0:
        return False
    with tempfile.TemporaryDirectory(prefix="mindgap-short-") as folder:
        Path(folder, "short.py").write_text(script)
        try:
            done = subprocess.run(
                [sys.executable, "short.py"], cwd=folder, capture_output=True, text=True, timeout=timeout_s, check=False
            )
        except subprocess.TimeoutExpired:
            return False
    return done.returncode == 1 and "AssertionError" in done.stderr


def onnx_issue(
    spec: PlatformSpec, kind: str, verdict: Verdict, short: str, said: str, asked: Asked, versions: Mapping[str, str]
) -> str:
    """What to paste into the tracker of the runtime, under the headings of its template."""
    is_standard = verdict.blame is Blame.EAGER
    headings = OF_ONNX if is_standard else (adapter_class(spec) or Platform).headings
    opening = ["```python", inside_fence(short.rstrip()), "```", "", "It ends with an AssertionError while the "
               "difference exists.", ""] if short else []  # fmt: skip
    cures: Sequence[str] = asked.cures
    lines = [
        f"# {'onnx-reference' if is_standard else spec.name}: ONNX {kind} gives a wrong result", "",
        *(["## Is the issue related to model conversion?", "", "No: the model holds these nodes and nothing else.", ""]
          if is_standard else []),
        *opening,
        f"## {headings.happens}", "", inline(verdict.sentence), "", "```", inside_fence(said), "```", "",
        f"## {headings.due}", "", f"The result of {spec.name}, with which float64 agrees." if is_standard
        else "The result of ONNX's reference implementation, with which float64 agrees.", "",
        *(["## Evidence", "", *(f"- {inline(line)}" for line in asked.lines()), ""] if asked.lines() else []),
        *(["## What restores agreement", "", *(f"- `{line}`" for line in cures), ""] if cures else []),
        f"## {headings.reproduce}", "", "`python repro.py` with witness.onnx and repro.npz (attached) needs numpy, "
        "onnx and the runtime; it exits with 1 while the difference exists.", "",
        f"## {headings.versions}", "", *(f"- {name} {version}" for name, version in versions.items()), "",
    ]  # fmt: skip
    return "\n".join(lines)

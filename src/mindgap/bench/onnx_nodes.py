"""ONNX's own node tests through runtimes: what passes by the standard's tolerance, next to what mindgap says."""

from __future__ import annotations

import functools
import tempfile
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch

from mindgap.bench.everywhere import ready_platforms
from mindgap.bench.measurement import Measurement, Row, Tell
from mindgap.bench.side_by_side import make_rows, problem_of
from mindgap.errors import UsageError
from mindgap.platforms.versions import versions
from mindgap.records.check import PlatformResult
from mindgap.session.session import Session
from mindgap.verdicts.onnx_runner import as_tensors

PLATFORMS: Final = ("onnxruntime", "openvino")
QUIET: Final = "Whatever is wrong by the expected outputs has a verdict that says so."
PASSED, WRONG, REFUSED, NOT_ASKED = "passed", "wrong", "refused", "not asked"


def measure(tell: Tell, count: int | None = None, on: Sequence[str] = (), keep: Path | None = None) -> Measurement:
    """Run node tests, all or evenly many of them; a row of the table per platform and result."""
    platforms = ready_platforms(on or PLATFORMS)
    tests = _tests()
    chosen = tests if count is None or count >= len(tests) else [tests[i * len(tests) // count] for i in range(count)]
    work = {item.name: functools.partial(_tried, item, tuple(platforms)) for item in chosen}
    found = make_rows(work, 1, keep, lambda what: tell("node tests", what))
    rows = [row for platform in platforms for row in _rows(platform, found)]
    telling = [
        f"- `{platform}` {row['test']}: {row[platform]['result']}, {row[platform]['verdict']}: {row[platform]['said']}"
        for row in found
        for platform in platforms
        if row[platform]["result"] == WRONG and row[platform]["verdict"] in ("agrees", "rounding")
    ]
    return Measurement(
        name="onnx_nodes",
        what="node tests of the ONNX standard: by its own tolerance, and by mindgap",
        on=f"{len(chosen)} of {len(tests)} node tests x {len(platforms)} platforms",
        rows=rows,
        conclusion="\n".join(["Wrong by the expected outputs, and quiet here:", "", *telling]) if telling else QUIET,
        versions={**versions([]), **platforms},
    )


def _tests() -> list[Any]:
    try:
        from onnx.backend.test.case.node import collect_testcases
    except ImportError as error:
        raise UsageError("the onnx package is not installed", hint="pip install 'mindgap[onnx]'") from error
    return sorted(collect_testcases(None), key=lambda item: str(item.name))


def _tried(test: Any, platforms: tuple[str, ...], session: Session) -> Row:
    """One test on every platform."""
    row: Row = {"test": test.name}
    names = [value.name for value in test.model.graph.input]
    try:
        inputs, outputs = ([_tensor(value) for value in values] for values in test.data_sets[0])
    except TypeError as error:
        return {**row, **{p: {"result": NOT_ASKED, "verdict": "", "said": str(error)} for p in platforms}}
    with tempfile.TemporaryDirectory(prefix="mindgap-node-") as folder:
        path = Path(folder) / "model.onnx"
        path.write_bytes(test.model.SerializeToString())
        torch.save(dict(zip(names, inputs)), Path(folder) / "inputs.pt")
        try:
            found = session.check(str(path), Path(folder) / "inputs.pt", platforms).platforms
        except Exception as error:
            said = problem_of(error)
            return {**row, **{p: {"result": NOT_ASKED, "verdict": "", "said": said} for p in platforms}}
    expected = dict(zip([value.name for value in test.model.graph.output], outputs))
    close = functools.partial(_close, rtol=test.rtol, atol=test.atol)
    return {**row, **{platform: _result(found[platform], expected, close) for platform in platforms}}


def _tensor(value: Any) -> torch.Tensor:
    """A value of a test; raises TypeError for what torch has no tensors of."""
    from onnx import TensorProto, numpy_helper

    array = numpy_helper.to_array(value) if isinstance(value, TensorProto) else value
    if not isinstance(array, np.ndarray | np.generic) or array.dtype.kind not in "biufV":
        raise TypeError("no tensors of numbers")
    return as_tensors(array.copy())  # type: ignore[no-any-return]


def _result(
    found: PlatformResult,
    expected: Mapping[str, torch.Tensor],
    close: Callable[[torch.Tensor, torch.Tensor], bool],
) -> Row:
    outcome, verdict = found.outcome, found.verdict
    told: Row = {"verdict": verdict.conclusion.value, "said": verdict.sentence}
    if not outcome.ok:
        return {"result": REFUSED, **told, "said": outcome.message}
    given = {item.name: item.tensor for item in outcome.outputs}
    right = all(name in given and close(given[name], value) for name, value in expected.items())
    return {"result": PASSED if right else WRONG, **told}


def _close(given: torch.Tensor, expected: torch.Tensor, rtol: float, atol: float) -> bool:
    if given.shape != expected.shape:
        return False
    mine, wanted = (tensor.to(torch.float64).numpy() for tensor in (given, expected))
    return bool(np.allclose(mine, wanted, rtol=rtol, atol=atol, equal_nan=True))


def _rows(platform: str, found: Sequence[Row]) -> list[Row]:
    counts = Counter((row[platform]["result"], row[platform]["verdict"]) for row in found)
    return [
        {"platform": platform, "expected outputs": result, "mindgap says": verdict or "-", "tests": number}
        for (result, verdict), number in sorted(counts.items())
    ]

"""The script that opens an issue: at most 15 lines, and it runs when pasted."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import torch

from mindgap.explanation.code import Code, write_code
from mindgap.platforms.base import Platform
from mindgap.platforms.registry import adapter_class
from mindgap.program.case import Case
from mindgap.program.convert import returned
from mindgap.records.platform import PlatformSpec
from mindgap.records.verdict import Blame
from mindgap.tracing.examine import Examination
from mindgap.verdicts.elements import THRESHOLD

MOST_LINES: Final = 15
MOST_COLUMNS: Final = 180
"""A longer line is data, not a program that somebody reads."""
RECORDING_S: Final = 300.0
"""For a runtime that tells its own calls: seconds to start it and to run a few operators."""


_PRINT: Final = 'print("expected", expected, "actual", actual)'
_REFUSES: Final = "but torch refuses it"
_ACCEPTING: Final = (
    "try: model(*inputs)",
    f'except Exception as error: raise AssertionError(f"gives {{actual}}, {_REFUSES}: {{error}}") from None',
)
"""For a platform that takes what eager refuses."""


@dataclass(frozen=True, slots=True)
class ShortScript:
    """A script that was run: it ends with an error while the difference exists."""

    text: str
    shows: bool


def is_eager_wrong(found: Examination) -> bool:
    """Whether eager is no authority: float64 says that it is wrong, too or alone."""
    theirs = found.verdict.eager_error_over_bound
    return found.verdict.blame in (Blame.EAGER, Blame.BOTH) or (theirs is not None and theirs > THRESHOLD)


def short_script(witness: Case, found: Examination, spec: PlatformSpec) -> str:
    """The source; empty where the witness or the platform takes more than it may."""
    theirs = spec.python and not spec.environment  # an interpreter of the user's, whose packages nobody knows
    if theirs or not (found.eager.ok or found.candidate.ok):
        return ""
    code = write_code(witness, as_module=True, returns_changed=True)
    if code.data:
        return ""
    given = [
        "import torch, torch.nn.functional as F" if _is_functional(code) else "import torch",
        *[line for line in code.function.splitlines() if line.strip()],
        f"model, inputs = Model().eval(), ({''.join(f'{text}, ' for text in code.inputs).strip()})",
    ]
    running = running_lines(given, spec)
    if not running:
        return ""
    odd = [f"import os; os.environ[{key!r}] = {value!r}" for key, value in _odd(spec).items()]
    lines = [*odd, *given, *running, *_ending(witness, found, spec, code)]
    if len(lines) > MOST_LINES:
        lines = [line for line in lines if line != _PRINT]
    fits = len(lines) <= MOST_LINES and max(map(len, lines)) <= MOST_COLUMNS
    return "\n".join(lines) + "\n" if fits else ""


def _odd(spec: PlatformSpec) -> Mapping[str, str]:
    """What makes this process another platform; what an installed runtime is given only keeps it quiet and single."""
    return {} if spec.environment else spec.env


def _is_functional(code: Code) -> bool:
    return " F." in code.function or "(F." in code.function


def _ending(witness: Case, found: Examination, spec: PlatformSpec, code: Code) -> Sequence[str]:
    """What raises an AssertionError; where the platform does not run it, its own error does."""
    if not found.candidate.ok:
        return ()
    return _comparing(witness, found, spec, code) if found.eager.ok else _ACCEPTING


def _comparing(witness: Case, found: Examination, spec: PlatformSpec, code: Code) -> list[str]:
    """What is due is eager's result, or float64's where eager is wrong too or runs in the same odd environment."""
    one = len(set(returned(witness.graph).values())) == 1  # what was written is returned as well
    call = "model(*inputs)"
    if is_eager_wrong(found) or _odd(spec):
        extra = "".join(f", {name}=torch.float64" for name in code.dtypes)
        call = f"model.double()(*[x.double() if x.is_floating_point() else x for x in inputs]{extra})"
    dtype = next((item.tensor.dtype for item in found.eager.outputs if item.tensor.is_floating_point()), None)
    rtol, atol = _allowed(found, 2.0**-52 if dtype is None else _eps(str(dtype)))
    same = ", check_dtype=False" if call.startswith("model.double") else ""
    due = f"[{call}]" if one else f"list({call})"
    return [
        f"expected = {due}",
        _PRINT,
        f"torch.testing.assert_close(actual, expected, rtol={rtol:.1e}, atol={atol:.1e}, equal_nan=True{same})",
    ]


def _allowed(found: Examination, eps: float) -> tuple[float, float]:
    """Relative and absolute: rounding allows the larger of the two, and `assert_close` adds them."""
    rtol, atol = THRESHOLD * eps, THRESHOLD * found.spread
    floats = [item.tensor.double().abs() for item in found.eager.outputs if item.tensor.is_floating_point()]
    sizes = torch.cat([size[size.isfinite()] for size in floats]) if floats else torch.zeros(0)
    if sizes.numel() and atol >= rtol * float(sizes.max()):
        return 0.0, atol
    return (rtol, 0.0) if sizes.numel() and atol <= rtol * float(sizes.min()) else (rtol, atol)


def _eps(dtype: str) -> float:
    return {"torch.float64": 2.0**-52, "torch.float16": 2.0**-10, "torch.bfloat16": 2.0**-7}.get(dtype, 2.0**-23)


def running_lines(given: Sequence[str], spec: PlatformSpec) -> Sequence[str]:
    """From `model` and `inputs` of these lines to `actual`; none where that takes more than a few."""
    platform = (adapter_class(spec) or Platform).reproducer(spec)
    if platform.short or not platform.recorder:
        return platform.short
    done = _pasted("\n".join([*given, platform.recorder]), RECORDING_S, spec)
    said = [line for line in done.stdout.splitlines() if line.startswith("SHORT ")] if done is not None else []
    return [str(line) for line in ast.literal_eval(said[-1].removeprefix("SHORT "))] if said else []


def tried(text: str, candidate_runs: bool, timeout_s: float, spec: PlatformSpec | None = None) -> ShortScript:
    """Paste it into a fresh process of the runtime's interpreter; it shows the difference when it ends as it should."""
    if not text or timeout_s <= 0:
        return ShortScript(text, False)
    done = _pasted(text, timeout_s, spec)
    if done is None:
        return ShortScript(text, False)
    compared = "AssertionError" in done.stderr and ("assert_close" in done.stderr or _REFUSES in done.stderr)
    return ShortScript(text, compared if candidate_runs else done.returncode != 0)


def _pasted(text: str, timeout_s: float, spec: PlatformSpec | None) -> subprocess.CompletedProcess[str] | None:
    """What it did in a fresh process of the runtime's interpreter; None when it got no answer."""
    inherited = {key: value for key, value in os.environ.items() if key not in ("PYTHONPATH", "PYTHONSTARTUP")}
    installed = spec is not None and bool(spec.environment)  # the drivers that belong to it are found by variables
    environment = inherited | (dict(spec.env) if spec is not None and installed else {})
    python = (spec.python if spec is not None else None) or sys.executable
    with tempfile.TemporaryDirectory(prefix="mindgap-short-") as folder:
        path = Path(folder) / "pasted.py"
        path.write_text(text, encoding="utf-8")
        try:
            return subprocess.run(
                [python, path.name], cwd=folder, env=environment, capture_output=True, text=True,
                timeout=timeout_s, check=False,
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            return None

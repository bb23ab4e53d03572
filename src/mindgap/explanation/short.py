"""The script that opens an issue: at most 15 lines, and it runs when pasted."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

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
    platform = (adapter_class(spec) or Platform).reproducer(spec)
    theirs = spec.python and not spec.environment  # an interpreter of the user's, whose packages nobody knows
    if not platform.short or theirs or not (found.eager.ok or found.candidate.ok):
        return ""
    code = write_code(witness, as_module=True, returns_changed=True)
    if code.data:
        return ""
    lines = [
        *(f"import os; os.environ[{key!r}] = {value!r}" for key, value in _odd(spec).items()),
        "import torch",
        *_functional(code),
        *[line for line in code.function.splitlines() if line.strip()],
        f"model, inputs = Model().eval(), ({''.join(f'{text}, ' for text in code.inputs).strip()})",
        *platform.short,
        *_ending(witness, found, spec, code),
    ]
    if len(lines) > MOST_LINES:
        lines = [line for line in lines if line != _PRINT]
    fits = len(lines) <= MOST_LINES and max(map(len, lines)) <= MOST_COLUMNS
    return "\n".join(lines) + "\n" if fits else ""


def _odd(spec: PlatformSpec) -> Mapping[str, str]:
    """What makes this process another platform; what an installed runtime is given only keeps it quiet and single."""
    return {} if spec.environment else spec.env


def _functional(code: Code) -> list[str]:
    return ["import torch.nn.functional as F"] if " F." in code.function or "(F." in code.function else []


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
    rtol = THRESHOLD * (2.0**-52 if dtype is None else _eps(str(dtype)))
    same = ", check_dtype=False" if call.startswith("model.double") else ""
    due = f"[{call}]" if one else f"list({call})"
    return [
        f"expected = {due}",
        _PRINT,
        f"torch.testing.assert_close(actual, expected, rtol={rtol:.1e}, atol={THRESHOLD * found.spread:.1e}, "
        f"equal_nan=True{same})",
    ]


def _eps(dtype: str) -> float:
    return {"torch.float64": 2.0**-52, "torch.float16": 2.0**-10, "torch.bfloat16": 2.0**-7}.get(dtype, 2.0**-23)


def tried(text: str, candidate_runs: bool, timeout_s: float, python: str | None = None) -> ShortScript:
    """Paste it into a fresh process of the runtime's interpreter; it shows the difference when it ends as it should."""
    if not text or timeout_s <= 0:
        return ShortScript(text, False)
    environment = {key: value for key, value in os.environ.items() if key not in ("PYTHONPATH", "PYTHONSTARTUP")}
    with tempfile.TemporaryDirectory(prefix="mindgap-short-") as folder:
        path = Path(folder) / "pasted.py"
        path.write_text(text, encoding="utf-8")
        try:
            done = subprocess.run(
                [python or sys.executable, path.name], cwd=folder, env=environment, capture_output=True, text=True,
                timeout=timeout_s, check=False,
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            return ShortScript(text, False)
    compared = "AssertionError" in done.stderr and ("assert_close" in done.stderr or _REFUSES in done.stderr)
    return ShortScript(text, compared if candidate_runs else done.returncode != 0)

"""Writing a reproducer and proving it: the script is run in a fresh process before anybody sees it."""

from __future__ import annotations

import io
import math
import os
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import torch

from mindgap.explanation.script import DATA_FILE, Script, write_script
from mindgap.program.case import Case
from mindgap.records.files import write_whole
from mindgap.records.platform import PlatformSpec
from mindgap.tracing.examine import Examination

SCRIPT: Final = "repro.py"
TIMEOUT_S: Final = 300.0
NOT_RUN: Final = "not run: the budget was spent"
LONGEST_OUTPUT: Final = 2000
"""Characters of what it prints that a report shows."""
_SHOWN: Final = ("DIFFERS", "BOTH DIE")
_QUIET: Final = ("PYTHONPATH", "PYTHONSTARTUP")


@dataclass(frozen=True, slots=True)
class Reproducer:
    """A script on disk and what it did when it was run."""

    path: Path
    text: str
    reproduces: bool
    said: str
    """The end of what it printed."""


def write_reproducer(
    folder: Path,
    witness: Case,
    found: Examination,
    spec: PlatformSpec,
    versions: Mapping[str, str],
    until: float = math.inf,
    shared_deaths: bool = False,
) -> Reproducer:
    """Write the script, run it, and fall back to exact operator names when the readable form shows nothing.

    After `until` on the monotonic clock the script that was written last stays, run or not. With `shared_deaths`,
    a death that eager shares is shown as well.
    """
    result = None
    for exact in (False, True):
        left = min(TIMEOUT_S, until - time.monotonic())
        if result is not None and left <= 0:
            break
        script = write_script(witness, found, spec, versions, exact, shared_deaths)
        if result is not None and script.text == result.text:
            break
        result = _tried(folder, script, left)
        if result.reproduces:
            break
    assert result is not None
    return result


def _tried(folder: Path, script: Script, timeout_s: float) -> Reproducer:
    path = folder / SCRIPT
    data = folder / DATA_FILE
    data.unlink(missing_ok=True)
    if script.code.data:
        content = io.BytesIO()
        torch.save(script.code.data, content)
        write_whole(data, content.getvalue())
    write_whole(path, script.text)
    if timeout_s <= 0:
        return Reproducer(path, script.text, False, NOT_RUN)
    environment = {key: value for key, value in os.environ.items() if key not in _QUIET}
    try:
        done = subprocess.run(
            [sys.executable, path.name],
            cwd=folder,
            env=environment,
            capture_output=True,
            text=True,
            timeout=timeout_s,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return Reproducer(path, script.text, False, f"no answer within {timeout_s:.0f} s")
    said = done.stdout.strip() or done.stderr.strip()
    shown = done.returncode == 1 and any(word in done.stdout for word in _SHOWN)
    return Reproducer(path, script.text, shown, shortened(said if shown else done.stdout + done.stderr))


def shortened(text: str) -> str:
    """Output that fits into a report: its beginning and its last line, never a part of a line."""
    lines = text.strip().splitlines()
    room = LONGEST_OUTPUT - len(lines[-1]) if lines else 0
    kept: list[str] = []
    for line in lines[:-1]:
        room -= len(line) + 1
        if room < 0:
            break
        kept.append(line)
    left_out = len(lines) - 1 - len(kept)
    middle = [f"... {left_out} more lines"] if left_out > 0 else []
    return "\n".join([*kept, *middle, *lines[-1:]])

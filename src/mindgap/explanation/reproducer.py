"""Writing a reproducer and proving it: the script is run in a fresh process before anybody sees it."""

from __future__ import annotations

import io
import os
import subprocess
import sys
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
    timeout_s: float = 300.0,
) -> Reproducer:
    """Write the script, run it, and fall back to exact operator names when the readable form shows nothing."""
    result = None
    for exact in (False, True):
        script = write_script(witness, found, spec, versions, exact)
        if result is not None and script.text == result.text:
            break
        result = _tried(folder, script, timeout_s)
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
        return Reproducer(path, script.text, False, f"no answer within {timeout_s:g} s")
    said = done.stdout.strip() or done.stderr.strip()
    shown = done.returncode == 1 and "DIFFERS" in done.stdout
    return Reproducer(path, script.text, shown, said[-2000:] if shown else (done.stdout + done.stderr)[-2000:])

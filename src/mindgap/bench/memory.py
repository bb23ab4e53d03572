"""How much memory it takes to judge a very large output."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Final

import numpy as np
import torch

from mindgap.bench.measurement import Measurement, Tell
from mindgap.records.outcome import Outcome, Stage, Status
from mindgap.records.tensors import NamedTensor
from mindgap.verdicts import compare, elements
from mindgap.verdicts.judge import judge
from mindgap.verdicts.survey import Survey, Surveyed

_PIECE: Final = 1 << 22


def measure(tell: Tell, megabytes: int = 2048, chunk: int | None = None) -> Measurement:
    """Judge one output with a single wrong element in a fresh process and watch its private memory."""
    tell("memory", f"an output of {megabytes:,} MB, with its reference and noise floor")
    elements = megabytes << 18
    with tempfile.TemporaryDirectory(prefix="mindgap-memory-") as folder:
        command = [sys.executable, "-m", "mindgap.bench.memory", folder, str(elements), str(chunk or 0)]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
    conclusion, worst, extra, seconds = done.stdout.split()
    row = {
        "output_mb": megabytes,
        "verdict": conclusion,
        "worst": worst,
        "extra_mb": round(float(extra)),
        "seconds": round(float(seconds), 1),
    }
    return Measurement(
        name="memory",
        what="private memory of the judging process beyond what it had before; tensors that workers return are mapped",
        on=f"one float32 output of {megabytes} MB, two platforms, one wrong element in the middle",
        rows=(row,),
        conclusion=f"judged within {row['extra_mb']} MB extra (target for 2 GB: 1 GB); "
        f"the wrong element was {'found' if worst == f'output[{elements // 2}]' else 'NOT found'}",
    )


def _judge(folder: Path, count: int, chunk: int) -> None:
    """What the fresh process does: prints conclusion, worst index, extra megabytes and seconds."""
    if chunk:
        compare.CHUNK = elements.CHUNK = chunk  # type: ignore[attr-defined, misc]
    # Only the candidate's file is really written: the others are holes, which read as zeros.
    eager, reference = _mapped(folder / "e", count, "float32"), _mapped(folder / "r", count, "float64")
    candidate, spread = _mapped(folder / "c", count, "float32", 1e-38), _mapped(folder / "s", count, "float32")
    candidate[count // 2] = 3.0
    survey = Survey((Surveyed("output", "float32", reference, spread),), runs=8)
    outcomes = [
        Outcome(name, Status.OK, Stage.RUN, outputs=(NamedTensor("output", tensor),))
        for name, tensor in (("eager", eager), ("candidate", candidate))
    ]
    before = _private_mb()
    peak = [before]
    done = threading.Event()

    def watch() -> None:
        while not done.wait(0.002):
            peak.append(_private_mb())

    thread = threading.Thread(target=watch)
    thread.start()
    start = time.perf_counter()
    verdict = judge(outcomes[0], outcomes[1:], survey)["candidate"].verdict
    seconds = time.perf_counter() - start
    done.set()
    thread.join()
    worst = (verdict.worst or "").replace(" ", "")
    sys.stdout.write(f"{verdict.conclusion.value} {worst} {max(peak) - before} {seconds}\n")


def _mapped(path: Path, count: int, dtype: str, value: float = 0.0) -> torch.Tensor:
    """A tensor in a file, as workers hand them over."""
    array = np.memmap(path, dtype, "w+", shape=(count,))
    for low in range(0, count if value else 0, _PIECE):
        array[low : low + _PIECE] = value
    return torch.from_numpy(array)


def _private_mb() -> float:
    """Memory that is this process's own; mapped files are not."""
    text = Path("/proc/self/status").read_text()
    lines = dict(line.split(":", 1) for line in text.splitlines())
    return int(lines["RssAnon"].split()[0]) / 1024


if __name__ == "__main__":
    _judge(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))

"""How long `mindgap ops` takes: the declared part, and invocations per second of each platform."""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from mindgap.bench.measurement import Measurement, Row, Tell
from mindgap.operators.answering import declared_answer
from mindgap.operators.declared import DEFAULT
from mindgap.operators.observed import read_sweep
from mindgap.operators.sweeping import sweep, universe
from mindgap.operators.universe import models_of

PLATFORMS: Final = ("onnxruntime", "openvino", "eager@scalar")
DECLARED_S: Final = 10.0
SWEEP_S: Final = 1200.0


def measure(tell: Tell, on: Sequence[str] = PLATFORMS, minutes: float = 20.0, seed: int = 0) -> Measurement:
    """The declared part once, then a float32 sweep of every operator for as long as allowed."""
    models = models_of()
    start = time.perf_counter()
    declared_answer(DEFAULT, models)
    declared_s = time.perf_counter() - start
    tell("sweep", "float32")
    operators = universe(models)
    with tempfile.TemporaryDirectory(prefix="mindgap-ops-") as folder:
        start = time.perf_counter()
        ending = sweep(Path(folder) / "sweep", on, operators, ["float32"], seed=seed, hours=minutes / 60)
        seconds = time.perf_counter() - start
        found = read_sweep(Path(folder) / "sweep")
    rows: list[Row] = []
    for platform in on:
        cells = [cell for (name, _, _), cell in found.cells.items() if name == platform]
        count = sum(sum(cell.invocations.values()) + cell.refused_like_eager for cell in cells)
        own = found.seconds.get(platform, 0.0)
        rows.append({
            "platform": platform, "operators": len(cells), "invocations": count,
            "per second": round(count / seconds, 2),
            "per second of its own time": round(count / own, 2) if own else "-",
        })  # fmt: skip
    word = "complete" if ending.complete else f"stopped after {minutes:g} minutes"
    return Measurement(
        name="ops",
        what="invocations of operators at float32: how many per second each platform runs and has judged, all of them "
        "at once; and how long the declared tables take",
        on=f"{len(operators)} operators, seed {seed}; load {os.getloadavg()[0]:.1f}",
        rows=rows,
        conclusion=f"the declared part took {declared_s:.1f} s (aim: under {DECLARED_S:.0f})\n"
        f"the sweep is {word}: {seconds:.0f} s for {found.programs} invocations (aim on two idle cores: "
        f"{SWEEP_S / 60:.0f} minutes)",
    )

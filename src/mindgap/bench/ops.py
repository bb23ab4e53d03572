"""How long `mindgap ops` takes: the declared part, and invocations per second of each platform."""

from __future__ import annotations

import os
import resource
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from mindgap.bench.measurement import Measurement, Row, Tell
from mindgap.errors import UsageError
from mindgap.operators.answering import declared_answer
from mindgap.operators.declared import DEFAULT
from mindgap.operators.observed import read_sweep
from mindgap.operators.sweeping import sweep, universe
from mindgap.operators.universe import models_of
from mindgap.variants.samples import sampled_operators

PLATFORMS: Final = ("onnxruntime", "openvino", "eager@scalar")
DECLARED_S: Final = 10.0
SWEEP_S: Final = 1200.0


def measure(
    tell: Tell, on: Sequence[str] = PLATFORMS, minutes: float = 20.0, seed: int = 0, keep: Path | None = None
) -> Measurement:
    """The declared part once, then a float32 sweep of every operator for as long as allowed."""
    if keep is not None and keep.exists():
        raise UsageError(f"{keep} exists already", hint="a sweep is timed from its beginning: name a new directory")
    models = models_of()
    start, cpu = time.perf_counter(), time.process_time()
    declared_answer(DEFAULT, models)
    declared_s, declared_cpu_s = time.perf_counter() - start, time.process_time() - cpu
    tell("sweep", "float32")
    operators = universe(models, sampled_operators())
    with tempfile.TemporaryDirectory(prefix="mindgap-ops-") as temporary:
        folder = keep or Path(temporary) / "sweep"
        start, cpu = time.perf_counter(), _cpu_s()
        ending = sweep(folder, on, operators, ["float32"], seed=seed, hours=minutes / 60)
        seconds, cpu_s = time.perf_counter() - start, _cpu_s() - cpu
        found = read_sweep(folder)
    rows: list[Row] = []
    for platform in on:
        cells = [cell for (name, _, _), cell in found.cells.items() if name == platform]
        count = sum(sum(cell.invocations.values()) + cell.refused_like_eager for cell in cells)
        own = found.seconds.get(platform, 0.0)
        rows.append({
            "platform": platform, "operators": len({op for name, op, _ in found.cells if name == platform}),
            "invocations": count, "per second": round(count / seconds, 2),
            "per second of its own time": round(count / own, 2) if own else "-",
        })  # fmt: skip
    word = "complete" if ending.complete else f"stopped after {minutes:g} minutes"
    each = cpu_s / max(1, sum(int(str(row["invocations"])) for row in rows))
    return Measurement(
        name="ops",
        what="invocations of operators at float32: how many per second each platform runs and has judged, all of them "
        "at once; and how long the declared tables take",
        on=f"{len(operators)} operators, seed {seed}; load {os.getloadavg()[0]:.1f}",
        rows=rows,
        conclusion=f"the declared part took {declared_s:.1f} s, {declared_cpu_s:.1f} s of CPU time (aim: under "
        f"{DECLARED_S:.0f} s)\n"
        f"the sweep is {word}: {seconds:.0f} s for {found.programs} invocations (aim on two idle cores: "
        f"{SWEEP_S / 60:.0f} minutes)\n"
        f"all processes together took {cpu_s:.0f} s of CPU time, {each:.2f} s per invocation and platform, which is "
        f"what two idle cores do in {cpu_s / 120:.1f} minutes",
    )


def _cpu_s() -> float:
    """CPU time of this process and of the workers that have ended."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(item.ru_utime + item.ru_stime for item in used)

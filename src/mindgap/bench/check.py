"""What `mindgap check` costs beyond the runtimes' own work."""

from __future__ import annotations

import os
import time

import torch

from mindgap.bench.measurement import Measurement, Row, Tell
from mindgap.session.session import DEFAULT_PLATFORMS, Session


def _small_network() -> torch.nn.Module:
    """A convolution, a normalisation and a linear layer: every runtime has work, none has much."""
    layers = torch.nn
    return layers.Sequential(
        layers.Conv2d(3, 16, 3, padding=1), layers.BatchNorm2d(16), layers.GELU(),
        layers.AdaptiveAvgPool2d(1), layers.Flatten(), layers.Linear(16, 10),
    ).eval()  # fmt: skip


def measure(tell: Tell, rounds: int = 3) -> Measurement:
    """Cold and warm checks of a small model, one platform at a time so that times add up."""
    torch.manual_seed(0)
    model, inputs = _small_network(), [torch.randn(2, 3, 32, 32)]
    rows: list[Row] = []
    with Session(jobs=1) as session:
        for number in range(rounds + 1):
            tell("check", f"{number} of {rounds + 1} done")
            start = time.perf_counter()
            result = session.check(model, inputs, DEFAULT_PLATFORMS)
            total = time.perf_counter() - start
            own = result.eager.total_seconds + sum(p.outcome.total_seconds for p in result.platforms.values())
            name = f"warm {number}" if number else "cold (starts the workers)"
            times = {"total_s": total, "runtimes_s": own, "beyond_s": total - own}
            rows.append({"check": name, **{key: round(spent, 2) for key, spent in times.items()}})
    beyond, cold = sorted(row["beyond_s"] for row in rows[1:])[rounds // 2], rows[0]["beyond_s"]
    return Measurement(
        name="check",
        what="wall time of one check; `runtimes` is the time inside the platforms' own stages, `beyond` the rest",
        on=f"a small CNN on {', '.join(DEFAULT_PLATFORMS)}, jobs=1, {os.cpu_count()} cores",
        rows=rows,
        conclusion=f"with warm workers a check costs {beyond:.2f} s beyond the runtimes "
        f"(target: under 2 s), {beyond / cold:.2f} of the cold check's {cold:.2f} s",
    )

"""What `mindgap check` costs beyond the runtimes' own work."""

from __future__ import annotations

import os
import time

import torch

from mindgap.bench.measurement import Measurement
from mindgap.platforms.versions import versions
from mindgap.records.check import CheckResult
from mindgap.session.session import DEFAULT_PLATFORMS, Session


class Small(torch.nn.Module):
    """A convolution, a normalisation and a linear layer: every runtime has work, none has much."""

    def __init__(self) -> None:
        super().__init__()
        self.features = torch.nn.Sequential(
            torch.nn.Conv2d(3, 16, 3, padding=1), torch.nn.BatchNorm2d(16), torch.nn.GELU()
        )
        self.head = torch.nn.Linear(16, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        pooled: torch.Tensor = self.features(x).mean((2, 3))
        return torch.nn.functional.linear(pooled, self.head.weight, self.head.bias)


def measure(rounds: int = 3) -> Measurement:
    """Cold and warm checks of a small model, one platform at a time so that times add up."""
    torch.manual_seed(0)
    model, inputs = Small().eval(), [torch.randn(2, 3, 32, 32)]
    rows: list[dict[str, str | float]] = []
    with Session(jobs=1) as session:
        for number in range(rounds + 1):
            start = time.perf_counter()
            result = session.check(model, inputs, DEFAULT_PLATFORMS)
            total = time.perf_counter() - start
            own = runtime_seconds(result)
            rows.append(
                {
                    "check": "cold (starts the workers)" if number == 0 else f"warm {number}",
                    "total_s": round(total, 2),
                    "runtimes_s": round(own, 2),
                    "beyond_s": round(total - own, 2),
                }
            )
    beyond = sorted(float(row["beyond_s"]) for row in rows[1:])[rounds // 2]
    cold = float(rows[0]["beyond_s"])
    return Measurement(
        name="check",
        what="wall time of one check; `runtimes` is the time inside the platforms' own stages, `beyond` the rest",
        on=f"a small CNN on {', '.join(DEFAULT_PLATFORMS)}, jobs=1, {os.cpu_count()} cores",
        rows=tuple(rows),
        conclusion=f"with warm workers a check costs {beyond:.2f} s beyond the runtimes "
        f"(target: under 2 s), {beyond / cold:.2f} of the cold check's {cold:.2f} s",
        versions=versions(),
    )


def runtime_seconds(result: CheckResult) -> float:
    """Time that the platforms themselves took."""
    return result.eager.total_seconds + sum(p.outcome.total_seconds for p in result.platforms.values())

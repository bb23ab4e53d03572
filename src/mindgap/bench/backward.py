"""What judging gradients costs: the joint program, in float64 and with noise, next to a plain training step."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from mindgap.bench.measurement import Measurement, Row, Tell
from mindgap.corpus.backward import Gradients, with_gradients
from mindgap.corpus.casing import case_of
from mindgap.corpus.loaded import Loaded
from mindgap.verdicts.factors import pool_for
from mindgap.verdicts.noise import Noise
from mindgap.verdicts.reference import Wide
from mindgap.verdicts.runner import Call, ProgramRunner


def models() -> dict[str, tuple[nn.Module, torch.Tensor]]:
    """A few kinds of layers, small enough for any machine."""
    torch.manual_seed(0)
    convolutions = nn.Sequential(
        nn.Conv2d(3, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU(), nn.Conv2d(16, 32, 3, stride=2), nn.Flatten(),
        nn.LazyLinear(10),
    )  # fmt: skip
    image = torch.randn(8, 3, 32, 32)
    convolutions(image)
    encoder = nn.TransformerEncoderLayer(64, 4, 128, dropout=0.0, batch_first=True)
    perceptron = nn.Sequential(nn.Linear(256, 256), nn.GELU(), nn.Linear(256, 10))
    return {
        "perceptron": (perceptron, torch.randn(32, 256)),
        "convolutions": (convolutions, image),
        "transformer layer": (encoder, torch.randn(8, 32, 64)),
    }


def measure(tell: Tell, rounds: int = 5) -> Measurement:
    """Time the runs that a verdict on gradients needs; a row per model."""
    rows = []
    for name, (model, x) in models().items():
        tell("backward", name)
        rows.append(_row(name, model.train(), x, rounds))
    worst = max(float(row["judged / plain"]) for row in rows)
    return Measurement(
        name="backward",
        what="CPU milliseconds of a training step, plain and as judged: once in float64 and eight times with noise",
        on=f"{len(rows)} models in training mode, float32, median of {rounds}",
        rows=rows,
        conclusion=f"Judging gradients costs at most {worst:.0f} plain training steps.",
    )


def _row(name: str, model: nn.Module, x: torch.Tensor, rounds: int) -> Row:
    loaded = with_gradients(Loaded(name, (x,), {}, model=model))
    case = case_of(loaded, None, 0)
    assert case.program is not None and isinstance(loaded.model, Gradients), case.export_failure
    step = loaded.model
    runner = ProgramRunner(case.program, case.constants, case.inputs, 0)
    noise = Noise(pool_for(0))
    plain = _ms(lambda: step(x), rounds)
    joint = _ms(lambda: runner.run(Call.make), rounds)
    wide = _ms(lambda: runner.run(Wide(), wide=True), rounds)
    noisy = _ms(lambda: runner.run(noise), rounds)
    return {
        "model": name,
        "operators": len(case.program.nodes),
        "plain step": round(plain, 2),
        "joint program": round(joint, 2),
        "float64": round(wide, 2),
        "one noise run": round(noisy, 2),
        "judged / plain": round((joint + wide + 8 * noisy) / plain, 1),
    }


def _ms(work: Callable[[], Any], rounds: int) -> float:
    """The median of CPU time, after a run that warms up: comparable on a machine that others use."""
    work()
    times = []
    for _ in range(rounds):
        start = time.process_time()
        work()
        times.append(1000 * (time.process_time() - start))
    return statistics.median(times)

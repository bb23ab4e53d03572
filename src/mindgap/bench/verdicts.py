"""What a verdict costs, in plain runs of the same program."""

from __future__ import annotations

import time
from collections.abc import Callable
from statistics import median
from typing import Any, Final

import torch

from mindgap.bench.measurement import Measurement, Tell
from mindgap.bench.small_programs import small_program
from mindgap.corpus.export import export, prepare
from mindgap.corpus.load import load
from mindgap.corpus.sources.shipped import Smoke
from mindgap.program.graph import Program, Tensors, leaves
from mindgap.program.inputs import Inputs
from mindgap.program.interpret import Executable
from mindgap.records.outcome import Outcome, Ran, Stage, Status
from mindgap.records.source import Source
from mindgap.records.tensors import NamedTensor
from mindgap.verdicts.factors import NoisePool
from mindgap.verdicts.judge import judge
from mindgap.verdicts.noise import Noise
from mindgap.verdicts.runner import runner_of
from mindgap.verdicts.surveyor import survey

MODELS: Final = (
    "timm:resnet18", "timm:mobilenetv3_small_050", "timm:convnext_atto", "timm:vit_tiny_patch16_224",
    "transformers:bert", "transformers:llama:causal-lm", "transformers:t5", "transformers:wav2vec2",
)  # fmt: skip
RUNS: Final = 4  # enough for norms; the target of the noise floor's cost is stated for it


def measure(tell: Tell, rounds: int = 5) -> Measurement:
    """Time of noise, survey and judgement as multiples of one plain run of the interpreter."""
    torch.set_num_threads(1)
    rows = []
    for spec in MODELS:
        tell("model", spec)
        loaded = load(Source(spec))
        rows.append({"program": spec, **_cost(*export(loaded), prepare(loaded), rounds)})
    costs = []
    for spec in [offer.spec for offer in Smoke().offers()]:
        tell("model", spec)
        loaded = load(Source(spec))
        costs.append(_cost(*export(loaded), prepare(loaded), rounds))
    rows.append({"program": f"smoke corpus: {len(costs)} programs (medians)", **_medians(costs)})
    tell("model", "100 small random programs")
    small = [small_program(seed) for seed in range(100)]
    costs = [_cost(item.graph, item.constants, item.inputs, rounds) for item in small]
    rows.append({"program": "100 small ones (medians)", **_medians(costs)})
    real, smoke = [float(row["noise"]) for row in rows[:-2]], rows[-2]["noise"]
    return Measurement(
        name="verdicts",
        what=f"one plain run in milliseconds; `noise` ({RUNS} Monte-Carlo runs), `survey` (reference, noise, hazards, "
        "ill-conditioning) and `judge` (one candidate that differs by rounding) as multiples of it",
        on=f"real models (tiny or at small sizes) and small random programs, one thread, CPU time, best of {rounds}",
        rows=rows,
        conclusion=f"{RUNS} noise runs cost {min(real):.1f}x to {max(real):.1f}x a plain run of a real model, median "
        f"{median(real):.1f}x; {smoke}x at the median of the smoke corpus (target: under 8x); {rows[-1]['noise']}x "
        "for small programs, whose runs of a tenth of a millisecond are all Python. A check makes none when every "
        "platform gives eager's bits",
    )


def _cost(program: Program, constants: Tensors, inputs: Inputs, rounds: int) -> dict[str, Any]:
    executable = Executable(program, constants)
    with torch.no_grad():
        result = executable.run(inputs.copies())
        plain = _best(lambda: executable.run(inputs.copies()), rounds)
        runner, noise = runner_of((program, constants), inputs, 0), Noise(NoisePool(0))
        noisy = _best(lambda: [runner.run(noise) for _ in range(RUNS)], rounds)
        known = survey((program, constants), inputs, 0, RUNS)
        surveyed = _best(lambda: survey((program, constants), inputs, 0, RUNS), rounds)
    names = [name for name, _ in program.output_leaves()]
    values = [value for _, value in leaves(result) if value is not None]
    eager = _outcome("eager", names, values)
    other = _outcome("candidate", names, [_next_after(value) for value in values])
    judged = _best(lambda: judge(eager, [other], known), rounds)
    ratios = {"noise": noisy / plain, "survey": surveyed / plain, "judge": judged / plain}
    return {
        "nodes": len(program.nodes),
        "plain_ms": round(1000 * plain, 3),
        **{name: round(ratio, 1) for name, ratio in ratios.items()},
    }


def _outcome(platform: str, names: list[str], values: list[Any]) -> Outcome:
    outputs = tuple(NamedTensor(n, v) for n, v in zip(names, values) if isinstance(v, torch.Tensor))
    return Outcome(platform, Status.OK, Stage.RUN, outputs=outputs, ran=Ran.PROGRAM)


def _next_after(value: Any) -> Any:
    """The same values, each off by its last bit."""
    floating = isinstance(value, torch.Tensor) and value.is_floating_point()
    return torch.nextafter(value, torch.full_like(value, float("inf"))) if floating else value


def _best(work: Callable[[], object], rounds: int) -> float:
    times = []
    for _ in range(rounds):
        start = time.process_time()  # one thread: CPU time does not count what else the machine does
        work()
        times.append(time.process_time() - start)
    return min(times)


def _medians(costs: list[dict[str, Any]]) -> dict[str, Any]:
    return {key: round(median(cost[key] for cost in costs), 3) for key in costs[0]}

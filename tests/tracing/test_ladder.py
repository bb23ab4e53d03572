"""Real differences of compilers and exporters are put on the layer that brings them in."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from mindgap.bench.faults import PLANTED
from mindgap.execution.pool import Pool
from mindgap.platforms.registry import resolve
from mindgap.records.explanation import Layer
from mindgap.tracing.examine import Examiner
from mindgap.tracing.ladder import climb
from tests.tracing.witnesses import plant, witness_of


def ladder_of(pool: Pool, platform: str, function: object, *inputs: torch.Tensor) -> Layer:
    examiner = Examiner(pool, resolve("eager"), resolve(platform))
    witness = witness_of(function, *inputs)  # type: ignore[arg-type]
    found = examiner.examine(witness)
    assert found.symptom is not None, f"{platform} no longer differs: {found.verdict.sentence}"
    climbed = climb(examiner, witness, found, resolve)
    assert climbed is not None
    return climbed


def test_inductor_loses_the_sign_of_zero_below_its_decompositions(pool: Pool) -> None:
    found = ladder_of(pool, "inductor", lambda x: 1.0 / (x * 0), torch.tensor([-1.0, 1.0, -5.0] * 6))
    rungs = dict(found.rungs)
    assert [rungs[name] for name in ("dynamo", "aot", "decomposition", "inductor")] == ["agrees"] * 3 + ["differs"]
    assert found.name == "inductor" and not found.restoring and "no switch helps" in found.sentence


def test_the_standard_s_own_implementation_convicts_the_exporter(pool: Pool) -> None:
    found = ladder_of(pool, "onnxruntime", torch.sign, torch.tensor([float("nan"), -0.0, 0.0, -3.0]))
    assert (found.name, found.cause) == ("exporter", "exporter semantics")
    assert dict(found.rungs) == {"onnx-reference": "differs"}


@pytest.mark.parametrize(("threads", "layer"), [(1, None), (2, "")])
def test_a_platform_with_several_threads_is_asked_with_one(pool: Pool, threads: int, layer: str | None) -> None:
    spec = replace(PLANTED, options={**PLANTED.options, "threads": threads})
    examiner = Examiner(pool, resolve("eager"), spec)
    witness, _ = plant(witness_of(lambda x: torch.tanh(x) * 2, torch.linspace(-1, 1, 9)), "aten.tanh", "sign_lost")
    found = climb(examiner, witness, examiner.examine(witness), resolve)
    assert (found.name if found else None) == layer
    assert found is None or found.sentence == "it differs with one thread as well"

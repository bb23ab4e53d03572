"""Real differences of compilers and exporters are put on the layer that brings them in."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from mindgap.bench.faults import PLANTED
from mindgap.execution.pool import Pool
from mindgap.platforms.registry import resolve
from mindgap.records.explanation import Layer
from mindgap.records.outcome import Status
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
    assert found.name == "passes" and len(found.restoring) == 1, found
    assert found.cures[0] == "torch._inductor.config.patch(dict.fromkeys(['joint_graph_constant_folding'], False))"


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


def test_openvino_s_reference_kernels_acquit_its_conversion(pool: Pool) -> None:
    """`-7 // 2` is -4 for them and -3 for the plugin of the CPU."""
    pytest.importorskip("openvino")
    found = ladder_of(pool, "openvino", lambda x: torch.div(x, 2, rounding_mode="floor"), torch.tensor([-7, -5, 3]))
    rungs = dict(found.rungs)
    assert found.name == "plugin" and rungs["OpenVINO's reference kernels"] == "agrees"
    assert rungs["code generation for fused operators off"] == "differs" and "no switch helps" in found.sentence


def test_openvino_in_bfloat16_is_cured_by_its_precision_hint(pool: Pool) -> None:
    """The layer is named by the first knob that helps; the line of code is there."""
    pytest.importorskip("openvino")
    spec = replace(resolve("openvino"), options={"precision": "bf16"})
    examiner = Examiner(pool, resolve("eager"), spec)
    witness = witness_of(lambda x: torch.tanh(x @ x), torch.randn(64, 64, generator=torch.Generator().manual_seed(0)))
    found = examiner.examine(witness)
    if found.symptom is None:
        pytest.skip("OpenVINO computes in float32 on this processor whatever the hint says")
    layer = climb(examiner, witness, found, resolve)
    assert layer is not None and layer.name == "precision hint"
    assert layer.cures[0] == "openvino.compile_model(model, \"CPU\", {'INFERENCE_PRECISION_HINT': 'f32'})"


def test_what_has_no_reference_kernel_in_openvino_is_unsupported(pool: Pool) -> None:
    pytest.importorskip("openvino")
    weight = torch.ones(1, 1, 3, 3)
    seen = Examiner(pool, resolve("eager"), resolve("openvino")).examine(
        witness_of(lambda x: torch.nn.functional.conv2d(x, weight), torch.ones(1, 1, 4, 4)),
        options={"kernels": "reference"},
    )
    assert seen.candidate.status is Status.UNSUPPORTED
    assert seen.candidate.message.startswith("Evaluation failed on opset1::Convolution")

"""Runtimes that read an exported program: ONNX Runtime, the ONNX reference, OpenVINO."""

from __future__ import annotations

import logging
import subprocess
import sys
import warnings
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import nn

from mindgap.execution.serve import load_adapter
from mindgap.platforms.base import StageClock, StageFailure
from mindgap.platforms.exported import ExportedRun, by_placeholder, export, from_bits, quiet, to_numpy
from mindgap.platforms.onnx import export as onnx_export
from mindgap.platforms.onnx.export import ELEMENT_TYPES
from mindgap.platforms.openvino import properties_of
from mindgap.platforms.registry import resolve
from mindgap.platforms.torch.torch_run import same_bits
from mindgap.records.outcome import Ran, Stage, Status
from mindgap.records.tensors import DTYPES
from tests.platforms.running import Network, Words, run_on, shares_memory, task_of

RUNTIMES = ["onnxruntime", "onnx-reference", "openvino"]


@pytest.mark.parametrize("platform", [*RUNTIMES, "onnxruntime@noopt"])
def test_a_network_with_a_channels_last_input(platform: str) -> None:
    image = torch.randn(1, 3, 6, 6).to(memory_format=torch.channels_last)
    task = task_of(Network(), [image])
    done, eager = run_on(platform, task), run_on("eager", task)
    assert done.message == "" and done.ran is Ran.PROGRAM
    assert list(done.outputs) == list(eager.outputs)
    for name, expected in eager.outputs.items():
        torch.testing.assert_close(done[name], expected.tensor)
        assert done.outputs[name].tensor.is_contiguous()
    stages = {"export", "convert", "compile", "run"}
    assert set(done.clock.seconds) == stages


def many_things(
    x: torch.Tensor, unused: torch.Tensor, empty: torch.Tensor, half: torch.Tensor, bf: torch.Tensor, flag: torch.Tensor
) -> dict[str, Any]:
    """A changed input, an unused one, no elements, 0-dim, and the element types."""
    x[0].add_(1)
    return {
        "scaled": x * 2,
        "empty": torch.cat([empty, empty]),
        "total": x.sum(),
        "half": half + 1,
        "bf": bf.float() * 2,
        "to_bf": (x * 3).bfloat16(),
        "flag": ~flag,
        "bytes": flag.to(torch.uint8),
        "integers": torch.arange(3) * flag.to(torch.int64).sum(),
        "double": x.double() / 4,
        "same": flag,
        "number": 7,
    }


@pytest.mark.parametrize("platform", RUNTIMES)
def test_every_kind_of_input_and_output(platform: str) -> None:
    args = [
        torch.full((2, 3), 1.5), torch.ones(4), torch.ones(0, 2), torch.full((2,), 0.1).half(),
        torch.full((2,), 0.1).bfloat16(), torch.tensor([True, False]),
    ]  # fmt: skip
    names = ["x", "unused", "empty", "half", "bf", "flag"]
    task = task_of(many_things, args, names=names)
    done, eager = run_on(platform, task, runs=2), run_on("eager", task)
    assert done.message == ""
    assert list(done.outputs) == list(eager.outputs)
    assert list(done.outputs)[-1] == "input:x"
    for name, expected in eager.outputs.items():
        assert same_bits(done[name], expected.tensor), name


@pytest.mark.parametrize("platform", ["onnxruntime", "onnx-reference"])
def test_complex_numbers_travel_as_pairs(platform: str) -> None:
    def model(z: torch.Tensor, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return z * (2 - 1j), torch.view_as_real(z).sum() + x

    task = task_of(model, [torch.tensor([1 + 2j, 3j]), torch.ones(2)])
    done, eager = run_on(platform, task), run_on("eager", task)
    assert done.message == ""
    torch.testing.assert_close(done["[0]"], eager["[0]"])


@pytest.mark.parametrize("platform", RUNTIMES)
def test_words_and_a_softmax(platform: str) -> None:
    task = task_of(Words(), [torch.tensor([[1, 2, 15]]), torch.zeros(3, 1)])
    done, eager = run_on(platform, task), run_on("eager", task)
    torch.testing.assert_close(done["output"], eager["output"])


@pytest.mark.parametrize("platform", ["onnxruntime", "onnx-reference"])
def test_outputs_that_share_memory(platform: str) -> None:
    task = task_of(shares_memory, [torch.ones(2, 3)])
    done, eager = run_on(platform, task), run_on("eager", task)
    assert list(done.outputs) == list(eager.outputs)
    assert all(same_bits(done[name], eager[name]) for name in eager.outputs)


@pytest.mark.parametrize("platform", RUNTIMES)
def test_an_operator_without_a_conversion(platform: str) -> None:
    done = run_on(platform, task_of(lambda x: torch.linalg.eigh(x)[0], [torch.eye(3)]))
    assert (done.status, done.clock.current) == (Status.UNSUPPORTED, Stage.CONVERT)
    assert "aten._linalg_eigh.default" in done.message


def test_onnxruntime_has_no_bfloat16_convolution() -> None:
    done = run_on("onnxruntime", task_of(nn.Conv2d(1, 1, 1).bfloat16(), [torch.ones(1, 1, 2, 2).bfloat16()]))
    assert (done.status, done.clock.current) == (Status.UNSUPPORTED, Stage.COMPILE)
    assert "bfloat16" in done.message and "Conv" in done.message


def test_onnxruntime_refuses_an_index_when_it_runs() -> None:
    task = task_of(lambda x, i: x[i], [torch.ones(3), torch.tensor([1])])
    bad = replace(task.inputs.tensors[1], tensor=torch.tensor([9]))
    done = run_on("onnxruntime", replace(task, inputs=replace(task.inputs, tensors=(task.inputs.tensors[0], bad))))
    assert (done.status, done.clock.current) == (Status.REJECTED, Stage.RUN)


def test_the_reference_names_the_operator_that_failed() -> None:
    """Its GatherElements cannot take more than 64 indices: a fault of its own, not a refused value."""
    many = task_of(lambda x, i: torch.gather(x, 1, i), [torch.ones(1, 70), torch.zeros(1, 70, dtype=torch.int64)])
    done = run_on("onnx-reference", many)
    assert (done.status, done.clock.current) == (Status.ERROR, Stage.RUN)
    assert done.message.startswith("GatherElements: ")


@pytest.mark.parametrize("platform", ["onnxruntime", "onnx-reference"])
def test_a_model_too_large_for_one_message_goes_through_a_file(platform: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(onnx_export, "PROTOBUF_LIMIT_BYTES", 1)
    task = task_of(nn.Linear(64, 64), [torch.ones(1, 64)])
    done, eager = run_on(platform, task), run_on("eager", task)
    torch.testing.assert_close(done["output"], eager["output"])


@pytest.mark.parametrize("platform", RUNTIMES)
def test_a_model_that_could_not_be_exported(platform: str) -> None:
    done = run_on(platform, task_of(lambda x: x, [torch.ones(1)], source=True))
    assert (done.status, done.clock.current) == (Status.UNSUPPORTED, Stage.EXPORT)
    assert done.message == "the model could not be exported"


def test_a_wrong_number_of_outputs_is_an_error() -> None:
    task = task_of(lambda x: (x + 1, x + 2), [torch.ones(1)])
    run = ExportedRun(task, export(task, StageClock()), lambda tensors: tensors)
    with pytest.raises(StageFailure, match="returned 1 outputs instead of 2") as caught:
        run.run(task.inputs.copies())
    assert caught.value.status is Status.ERROR


def test_inputs_are_found_by_name_or_by_position() -> None:
    task = task_of(lambda x, y, z: x + z, [torch.ones(1)] * 3)
    exported = export(task, StageClock())
    first, second, third = exported.placeholders
    assert by_placeholder(exported, [(third,), (first,)]) == [2, 0]
    assert by_placeholder(exported, [("a",), ("b",), (third,)]) == [0, 1, 2]
    with pytest.raises(StageFailure, match="unknown input: a"):
        by_placeholder(exported, [("a",), (second,)])


@pytest.mark.parametrize("name", DTYPES)
@pytest.mark.parametrize("shape", [(2, 3), (), (0,)])
def test_bits_survive_numpy(name: str, shape: tuple[int, ...]) -> None:
    tensor = torch.ones(shape).to(DTYPES[name])
    assert same_bits(from_bits(to_numpy(tensor), DTYPES[name], shape), tensor)


def test_the_numbers_of_element_types_are_those_of_onnx() -> None:
    import onnx

    theirs = {
        "float32": "FLOAT", "float64": "DOUBLE", "float8_e4m3fn": "FLOAT8E4M3FN", "float8_e5m2": "FLOAT8E5M2",
        "float8_e4m3fnuz": "FLOAT8E4M3FNUZ", "float8_e5m2fnuz": "FLOAT8E5M2FNUZ",
    }  # fmt: skip
    for name, code in ELEMENT_TYPES.items():
        assert onnx.TensorProto.DataType.Name(code) == theirs.get(name, name.upper())


@pytest.mark.parametrize("platform", RUNTIMES)
def test_probe_measures_dtypes(platform: str) -> None:
    probe = load_adapter(resolve(platform)).probe()
    assert probe.available and probe.version and probe.device
    assert {"float32", "float16", "int64", "bool"} <= set(probe.dtypes)
    assert ("bfloat16" in probe.dtypes) is (platform != "onnxruntime")


@pytest.mark.parametrize(
    ("platform", "package"),
    [
        ("onnxruntime", "onnxruntime"),
        ("onnxruntime", "onnxscript"),
        ("onnx-reference", "onnx"),
        ("openvino", "openvino"),
    ],
)
def test_a_missing_package(platform: str, package: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    probe = load_adapter(resolve(platform)).probe()
    assert not probe.available
    assert probe.reason == f"{package} is not installed"
    assert str(resolve(platform).install).startswith("pip install 'mindgap[")


def test_a_half_installed_package_is_a_reason_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("onnxruntime.__version__", property, raising=True)
    monkeypatch.setattr("mindgap.platforms.onnx.onnxruntime.require_exporter", lambda: 1 / 0)
    probe = load_adapter(resolve("onnxruntime")).probe()
    assert not probe.available and probe.reason == "division by zero"


def test_converters_are_silent_and_the_log_is_given_back(capfd: pytest.CaptureFixture[str]) -> None:
    with warnings.catch_warnings(record=True) as caught, quiet():
        warnings.warn("about myself", stacklevel=1)
    assert not caught
    assert logging.root.manager.disable == logging.NOTSET
    capfd.readouterr()
    run_on("onnxruntime", task_of(lambda x: (x + 1, torch.arange(3)), [torch.ones(2)]))
    assert capfd.readouterr() == ("", "")


def test_openvino_never_phones_home() -> None:
    code = """
import sys, threading, torch
torch.set_num_threads(1)
from tests.platforms.running import run_on, task_of
done = run_on("openvino", task_of(lambda x: x + 1, [torch.ones(2)]))
names = [thread.name for thread in threading.enumerate() if "ThreadPool" in thread.name]
print(done.status.value, names, [name for name in sys.modules if name.startswith("openvino_telemetry.")])
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "ok [] []"


def test_openvino_computes_float32_in_float32() -> None:
    assert properties_of(resolve("openvino")) == {"INFERENCE_PRECISION_HINT": "f32", "INFERENCE_NUM_THREADS": 1}
    assert "INFERENCE_NUM_THREADS" not in properties_of(resolve("openvino:GPU"))

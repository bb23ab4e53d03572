from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from mindgap.execution.serve import load_adapter
from mindgap.platforms.base import StageClock
from mindgap.platforms.registry import resolve
from mindgap.platforms.torch.torch_run import named_outputs
from mindgap.records.outcome import Ran, Stage, Status
from mindgap.records.tensors import same_bits
from tests.platforms.running import Network, Words, changes_input, run_on, shares_memory, task_of

IMAGE = torch.randn(1, 3, 6, 6, generator=torch.Generator().manual_seed(1))


@pytest.mark.parametrize("source", [True, False])
@pytest.mark.parametrize("layout", [torch.contiguous_format, torch.channels_last])
def test_outputs_are_named_by_their_path(source: bool, layout: torch.memory_format) -> None:
    image = IMAGE.contiguous(memory_format=layout)
    with torch.no_grad():
        expected = Network()(image.clone())["features"]
    done = run_on("eager", task_of(Network(), [image], source=source))
    assert done.ran is (Ran.SOURCE if source else Ran.PROGRAM)
    assert list(done.outputs) == ["features", "rest[0]", "rest[2]", "rest[3][0]", "rest[3][1]"]
    assert same_bits(done["features"], expected)
    assert done["rest[2]"].dtype is torch.int64 and done["rest[3][1]"].dtype is torch.float64
    assert done.outputs["features"].stride == expected.stride()
    assert done["features"].is_contiguous()


@pytest.mark.parametrize("source", [True, False])
def test_an_input_that_changed_follows_the_outputs(source: bool) -> None:
    x, y = torch.ones(2, 3), torch.full((2, 3), float("nan"))
    done = run_on("eager", task_of(changes_input, [x, y], source=source, names=["x", "y"]), runs=2)
    assert list(done.outputs) == ["output", "input:x"]
    assert done["input:x"].tolist() == [[2.0] * 3, [1.0] * 3]


@pytest.mark.parametrize("source", [True, False])
def test_outputs_share_memory_with_nothing(source: bool) -> None:
    done = run_on("eager", task_of(shares_memory, [torch.ones(2, 3)], source=source))
    pointers = [item.tensor.untyped_storage().data_ptr() for item in done.outputs.values()]
    assert len(set(pointers)) == len(pointers) == 4
    assert done.outputs["[3]"].stride == (1, 3)


DTYPES = [
    torch.float64, torch.float16, torch.bfloat16, torch.int64, torch.int8, torch.uint8, torch.bool, torch.complex64,
    torch.complex128,
]  # fmt: skip


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(3,), (), (0, 2)])
def test_every_dtype_and_shape(dtype: torch.dtype, shape: tuple[int, ...]) -> None:
    x = torch.ones(shape).to(dtype)
    done = run_on("eager", task_of(lambda x: x * x, [x]))
    assert same_bits(done["output"], x * x)


def test_layouts_with_gaps_and_repeats_reach_the_model() -> None:
    seen: list[tuple[int, ...]] = []

    def model(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        seen.extend([x.stride(), y.stride()])
        return x.conj() + y

    x = torch.ones(4, 6, dtype=torch.complex64)[::2, ::3]
    run_on("eager", task_of(model, [x, torch.ones(2, 1).expand(2, 2)], source=True))
    assert seen == [(12, 3), (1, 0)]


class Remembers(nn.Module):
    """Changes a buffer, an attribute and a running statistic whenever it is called."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.BatchNorm1d(3)
        self.register_buffer("calls", torch.zeros(1))
        self.register_buffer("repeated", torch.zeros(1).expand(3))
        self.cache: Any = None

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.calls.add_(1)
        self.cache = self.calls.clone() if self.cache is None else self.cache + 10
        self.late = 1
        return self.norm(x) + self.cache + self.repeated


@pytest.mark.parametrize("platform", ["eager", "aot_eager"])
def test_a_second_run_starts_where_the_first_did(platform: str) -> None:
    model = Remembers()
    task = task_of(model, [torch.randn(4, 3)], source=True)
    first, third = run_on(platform, task), run_on(platform, task, runs=3)
    assert same_bits(first["output"], third["output"])
    assert model.cache is None and not hasattr(model, "late")
    assert model.calls.item() == 0 and model.norm.num_batches_tracked == 0


def test_every_source_of_randomness_is_seeded_before_each_run() -> None:
    def model(x: torch.Tensor) -> torch.Tensor:
        return x + torch.rand(2) + random.random() + np.random.rand()

    task = task_of(model, [torch.zeros(2)], source=True)
    assert same_bits(run_on("eager", task)["output"], run_on("eager", task, runs=2)["output"])
    other = run_on("eager", replace(task, seed=2**40))
    assert not same_bits(run_on("eager", task)["output"], other["output"])


def test_gradients_are_off_and_outputs_detached() -> None:
    done = run_on("eager", task_of(nn.Linear(2, 2), [torch.ones(1, 2)], source=True))
    assert not done["output"].requires_grad


def test_what_is_no_tensor_is_said_and_not_lost() -> None:
    done = run_on("eager", task_of(lambda x: {"a": x, "b": "text", "c": np.float32(2)}, [torch.ones(1)], source=True))
    assert list(done.outputs) == ["a", "b", "c"]
    assert bytes(done["b"].tolist()) == b"text"


def test_a_sparse_output_is_compared_part_by_part() -> None:
    done = run_on("eager", task_of(lambda x: x.to_sparse(), [torch.tensor([0.0, 3.0])], source=True))
    assert done["indices"].tolist() == [[1]] and done["values"].tolist() == [3.0]


def test_a_nested_output_is_compared_part_by_part_and_an_odd_one_is_said() -> None:
    parts = named_outputs(
        (torch.nested.nested_tensor([torch.ones(2), torch.ones(1)]), torch.eye(2).to_sparse_bsr((1, 1)))
    )
    assert [item.name for item in parts[0]] == ["[0][0]", "[0][1]"]
    assert parts[1] == ("[1] (torch.sparse_bsr tensor of torch.float32)",)


def test_what_is_neither_tensor_nor_number_becomes_text() -> None:
    outputs, _ = named_outputs({"stage": Stage.RUN, "dtype": torch.half, "raw": b"\xff", "huge": 2**70})
    said = {item.name: bytes(item.tensor.tolist()).decode() for item in outputs}
    assert said == {"stage": "Stage.RUN", "dtype": "torch.float16", "raw": "\xff", "huge": str(2**70)}


def test_a_refused_value_and_a_missing_kernel() -> None:
    words = Words()
    ids, mask = torch.tensor([[99]]), torch.zeros(1)
    assert run_on("eager", task_of(words, [ids, mask], source=True)).status is Status.REJECTED
    missing = run_on("eager", task_of(lambda x: torch.linalg.inv(x), [torch.eye(2).half()], source=True))
    assert (missing.status, missing.clock.current) == (Status.UNSUPPORTED, Stage.RUN)


def test_without_source_and_program_there_is_nothing_to_run() -> None:
    task = task_of(lambda x: x, [torch.ones(1)], source=True)
    done = run_on("eager", replace(task, model=None))
    assert (done.status, done.clock.current) == (Status.UNSUPPORTED, Stage.LOAD)


def test_nomkldnn_switches_onednn_off_around_the_run_only() -> None:
    seen: list[bool] = []

    def model(x: torch.Tensor) -> torch.Tensor:
        seen.append(torch._C._get_mkldnn_enabled())
        return x

    task = task_of(model, [torch.ones(1)], source=True)
    run_on("eager@nomkldnn", task)
    run_on("eager", task)
    assert seen == [False, True]
    assert torch._C._get_mkldnn_enabled()


def test_probe_measures_dtypes() -> None:
    probe = load_adapter(resolve("eager")).probe()
    assert probe.available and probe.version == torch.__version__
    assert probe.device == f"CPU {torch.backends.cpu.get_cpu_capability()}"
    assert {"float32", "bfloat16", "bool", "complex64"} <= set(probe.dtypes)
    assert "float8_e5m2" not in probe.dtypes  # torch has no addition for it


def test_stages_are_timed() -> None:
    adapter, clock = load_adapter(resolve("eager")), StageClock()
    adapter.prepare(task_of(lambda x: x, [torch.ones(1)], source=True), clock)
    assert set(clock.seconds) == {"load"}

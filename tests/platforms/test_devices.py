"""No device is here, so stand-ins prove the contract: `cpu` under another name, and `meta` for placement."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any, ClassVar

import pytest
import torch
from torch import nn

from mindgap.execution.serve import load_adapter
from mindgap.platforms.base import StageClock
from mindgap.platforms.registry import resolve
from mindgap.platforms.torch.compiled import AotEager, Inductor, missing_compiler
from mindgap.platforms.torch.devices import DEVICES, Device
from mindgap.platforms.torch.eager import Eager
from mindgap.platforms.torch.other_versions import RECIPES
from mindgap.platforms.torch.torch_run import Placement, TorchRun, own_model, own_program
from mindgap.program.convert import to_graph_module
from mindgap.program.graph import Node, leaves
from mindgap.program.interpret import Executable
from mindgap.records.outcome import Ran, Stage, Status
from mindgap.records.platform import PlatformSpec
from mindgap.records.tensors import same_bits
from tests.platforms.running import Network, changes_input, run_on, shares_memory, task_of

CALLS: list[str] = []


def available() -> bool:
    return True


def label() -> str:
    return "Stand-in 9000"


def synchronise() -> None:
    CALLS.append("synchronise")


def seed(value: int) -> None:
    CALLS.append(f"seed {value}")


STAND_INS = {
    "standin": Device(
        "cpu",
        install="nothing to install",
        package="json",
        available=f"{__name__}:available",
        label=f"{__name__}:label",
        synchronise=f"{__name__}:synchronise",
        seed=f"{__name__}:seed",
        stacks=(("Missing", "torch.version:no_such_stack"), ("Python", "sys:version_info")),
        lacks=("float64",),
        compiler="eager",
    ),
    "meta": Device("meta", install="nothing to install"),
}


class StandInEager(Eager):
    device_table: ClassVar = STAND_INS


class StandInAot(AotEager):
    device_table: ClassVar = STAND_INS


class StandInInductor(Inductor):
    device_table: ClassVar = STAND_INS


SPEC = PlatformSpec("eager:standin", f"{__name__}:StandInEager", device="standin")


class Placed(nn.Module):
    """Parameters, buffers, a tensor made on the input's device and one made from a literal."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(3, 3))
        self.register_buffer("offset", torch.randn(3))

    def forward(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        places = torch.arange(3, device=x.device) + torch.ones(3, device=x.device)
        return {"y": x @ self.weight + self.offset + places, "x": x.add_(1)}


@pytest.mark.parametrize("adapter", [StandInEager, StandInAot, StandInInductor])
@pytest.mark.parametrize("source", [True, False])
def test_the_full_path_on_a_device(adapter: Any, source: bool) -> None:
    CALLS.clear()
    model = Placed()
    x = torch.randn(3, 3).t()
    task = task_of(model, [x], source=source, names=["x"])
    done = run_on(adapter(SPEC), task)
    expected = run_on("eager", task)
    assert done.message == ""
    assert done.ran is (Ran.SOURCE if source else Ran.PROGRAM)
    assert list(done.outputs) == list(expected.outputs) == ["y", "x", "input:x"]
    assert all(same_bits(done[name], expected[name]) for name in expected.outputs)
    assert CALLS[-2:] == ["seed 0", "synchronise"]


@pytest.mark.parametrize("model", [Network(), changes_input, shares_memory])
def test_a_device_gives_what_the_processor_gives(model: Any) -> None:
    args = [torch.randn(1, 3, 5, 5)] if isinstance(model, nn.Module) else [torch.ones(2, 3)]
    args = [*args, torch.ones(3)] if model is changes_input else args
    task = task_of(model, args)
    done, expected = run_on(StandInEager(SPEC), task), run_on("eager", task)
    assert list(done.outputs) == list(expected.outputs)
    assert all(same_bits(done[name], expected[name]) for name in expected.outputs)


def test_the_probe_of_a_device() -> None:
    probe = StandInEager(SPEC).probe()
    assert probe.available and probe.device == "Stand-in 9000"
    assert probe.version.startswith(f"{torch.__version__} Python")
    assert "float32" in probe.dtypes and "float64" not in probe.dtypes


def test_the_users_module_stays_where_it_was() -> None:
    model = Placed()
    placement = Placement(STAND_INS["meta"], torch.device("meta"))
    moved = placement.model(model)
    assert isinstance(moved, nn.Module) and moved is not model
    assert {p.device.type for p in moved.parameters()} == {"meta"}
    assert {p.device.type for p in model.parameters()} == {"cpu"}


def test_everything_lands_on_the_device_in_program_mode() -> None:
    task = task_of(Placed(), [torch.randn(3, 3)])
    placement = StandInEager(replace(SPEC, device="meta")).placement_for(task)
    program = own_program(task, placement)
    seen: list[torch.device] = []

    def observe(node: Node, result: Any) -> Any:
        seen.extend(leaf.device for _, leaf in leaves(result) if isinstance(leaf, torch.Tensor))
        return result

    placed = [placement.put(item.tensor) for item in task.inputs.tensors]
    outputs = Executable(program, task.constants, placement.device).run(placed, observer=observe)
    seen += [leaf.device for _, leaf in leaves(outputs)]
    seen += [leaf for node in program.nodes for _, leaf in leaves([node.args, dict(node.kwargs)])
             if isinstance(leaf, torch.device)]  # fmt: skip
    module = to_graph_module(program, task.constants).to("meta")
    seen += [leaf.device for _, leaf in leaves(module(*placed))]
    assert len(seen) > len(program.nodes)
    assert {device.type for device in seen} == {"meta"}


def test_everything_lands_on_the_device_in_source_mode() -> None:
    task = task_of(Placed(), [torch.randn(3, 3)], source=True)
    adapter = StandInEager(replace(SPEC, device="meta"))
    prepared = adapter.prepare(task, StageClock())
    assert isinstance(prepared, TorchRun)
    result = prepared.result([adapter.placement.put(item.tensor) for item in task.inputs.tensors])
    assert {value.device.type for value in result.values()} == {"meta"}
    assert own_model(task, adapter.placement) is not None


@pytest.mark.parametrize("layout", ["gaps", "repeats", "channels last", "empty", "scalar"])
def test_placement_keeps_strides(layout: str) -> None:
    x = {
        "gaps": torch.randn(6, 8)[::2, ::3],
        "repeats": torch.randn(3, 1).expand(3, 4),
        "channels last": torch.randn(2, 3, 4, 5).to(memory_format=torch.channels_last),
        "empty": torch.empty(0, 3),
        "scalar": torch.tensor(3.0),
    }[layout]
    task = task_of(lambda x: x, [x], source=True)
    placement = StandInEager(SPEC).placement
    placed = placement.put(task.inputs.tensors[0].tensor)
    assert placed.stride() == x.stride() and same_bits(placed, x)
    assert placed.data_ptr() != x.data_ptr() or not x.numel()


@pytest.mark.parametrize("source", [True, False])
def test_a_dtype_that_the_device_lacks_is_unsupported_before_anything_runs(source: bool) -> None:
    as_input = task_of(lambda x: x + 1, [torch.ones(2, dtype=torch.float64)], source=source, names=["x"])
    done = run_on(StandInEager(SPEC), as_input)
    assert (done.status, done.clock.current) == (Status.UNSUPPORTED, Stage.LOAD)
    assert done.message == "cpu has no float64, the dtype of x"
    as_weight = task_of(nn.Linear(2, 2).double(), [torch.ones(1, 2)], source=True)
    assert "weight" in run_on(StandInEager(SPEC), as_weight).message


@pytest.mark.parametrize("name", DEVICES)
@pytest.mark.parametrize("runtime", ["eager", "inductor"])
def test_a_device_that_is_not_here_says_why(
    runtime: str, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MINDGAP_PLATFORMS", str(tmp_path))
    spec = resolve(f"{runtime}:{name}")
    probe = load_adapter(spec).probe()
    assert not probe.available
    assert "is not installed" in probe.reason or "finds no" in probe.reason
    assert spec.install == (recipe.command if (recipe := RECIPES.get(f":{name}")) else DEVICES[name].install)


def test_the_same_torch_device_may_be_nvidia_or_amd(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.version, "cuda", "12.8")
    assert DEVICES["cuda"].stack() == "CUDA 12.8"
    monkeypatch.setattr(torch.version, "hip", "6.4")
    assert DEVICES["cuda"].stack() == "ROCm 6.4"


def test_a_package_that_adds_its_device_to_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    """torch_npu and habana add `torch.npu` and `torch.hpu`, which are attributes and not modules."""

    class Npu:
        is_available = staticmethod(lambda: True)
        get_device_name = staticmethod(lambda: "Ascend 910B")
        synchronize = staticmethod(lambda: CALLS.append("npu"))

    monkeypatch.setitem(sys.modules, "torch_npu", ModuleType("torch_npu"))
    monkeypatch.setattr(torch, "npu", Npu, raising=False)
    npu = DEVICES["npu"]
    npu.load()
    npu.wait()
    assert npu.is_available() and npu.name() == "Ascend 910B" and CALLS[-1] == "npu"


def test_xla_has_its_own_seed_and_synchronisation(monkeypatch: pytest.MonkeyPatch) -> None:
    package: Any = ModuleType("torch_xla")
    package.sync = lambda: CALLS.append("xla sync")
    package.manual_seed = lambda value: CALLS.append(f"xla seed {value}")
    monkeypatch.setitem(sys.modules, "torch_xla", package)
    DEVICES["xla"].load()
    DEVICES["xla"].set_seed(5)
    DEVICES["xla"].wait()
    assert CALLS[-2:] == ["xla seed 5", "xla sync"]


@pytest.mark.parametrize("name", DEVICES)
def test_a_script_imports_what_makes_torch_know_the_device(name: str) -> None:
    text = Eager.reproducer(resolve(f"eager:{name}"))
    package = DEVICES[name].package
    assert (package is None) == ("    import" not in text.text)
    assert package is None or f"    import {package} " in text.text
    assert list(text.packages) == [item for item in [DEVICES[name].distribution] if item]


def test_one_of_several_devices() -> None:
    placement = Placement.of(replace(SPEC, device="meta:1"), STAND_INS)
    assert placement.device == torch.device("meta:1")


def test_what_the_compiler_of_a_device_needs(monkeypatch: pytest.MonkeyPatch) -> None:
    needs = Device("cpu", install="", compiler_package="no_such_package")
    assert missing_compiler(Placement(needs, torch.device("cpu"))) == "no_such_package is not installed"
    monkeypatch.setenv("CXX", "no-such-compiler")
    assert missing_compiler(Placement()) == "no C++ compiler: no-such-compiler not found"
    probe = load_adapter(resolve("inductor")).probe()
    assert not probe.available and "C++ compiler" in probe.reason

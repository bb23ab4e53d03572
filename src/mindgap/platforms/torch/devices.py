"""The devices of torch beyond the CPU, as data."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import torch

from mindgap.platforms.base import Fallback, StageFailure
from mindgap.records.outcome import Status
from mindgap.records.tensors import DTYPE_NAMES


@dataclass(frozen=True, slots=True)
class Device:
    """How one kind of device is reached; functions are named `module:function` and found when needed."""

    torch_device: str
    """What torch calls it."""
    install: str
    hardware: str = ""
    """What must be in the machine."""
    package: str | None = None
    """What must be imported before torch knows the device."""
    distribution: str | None = None
    """What brings that package, whose version matters in a report."""
    available: str | None = None
    label: str | None = None
    """Tells the name of the hardware."""
    synchronise: str | None = None
    """Waits until the device has finished, so that a failure belongs to the run that caused it."""
    tally: str | None = None
    """Counts what the device leaves to the CPU: called with whether the code is compiled, it returns who tells."""
    seed: str = "torch:manual_seed"
    stacks: tuple[tuple[str, str], ...] = ()
    """Software below torch, each with where its version is found; the first that is there counts."""
    lacks: tuple[str, ...] = ()
    """Element types that do not exist on it."""
    compiler: str = "inductor"
    """The torch.compile backend that serves the device."""
    compiler_package: str | None = None
    """What that backend needs beside torch."""

    def load(self) -> None:
        """Import what torch needs to know the device."""
        if self.package:
            importlib.import_module(self.package)

    def is_available(self) -> bool:
        return self.available is None or bool(_function(self.available)())

    def name(self) -> str:
        return self.torch_device if self.label is None else str(_function(self.label)())

    def wait(self) -> None:
        if self.synchronise:
            _function(self.synchronise)()

    def watch(self, compiled: bool = False) -> Callable[[], Fallback | None]:
        """Count from now on; the result tells what was left to the CPU since, None where the device cannot tell."""
        if self.tally is None:
            return lambda: None
        told: Callable[[], Fallback | None] = _function(self.tally)(compiled)
        return told

    def set_seed(self, seed: int) -> None:
        if self.torch_device == "cpu":
            # torch.manual_seed notes the call, with its stack, for every kind of device that is not there: a
            # millisecond each time, and memory that never comes back.
            torch.default_generator.manual_seed(seed)
        else:
            torch.manual_seed(seed)
        if self.seed != "torch:manual_seed":
            _function(self.seed)(seed)

    def stack(self) -> str:
        """`CUDA 12.8` or `ROCm 6.4`: what the same torch device really is."""
        for name, path in self.stacks:
            version = _attribute(path)
            if version:
                return f"{name} {version}"
        return ""

    def refuse_missing(self, name: str, dtype: torch.dtype) -> None:
        """Reject an element type that the device lacks, in clearer words than its own."""
        if DTYPE_NAMES.get(dtype) in self.lacks:
            raise StageFailure(
                Status.UNSUPPORTED, f"{self.torch_device} has no {DTYPE_NAMES[dtype]}, the dtype of {name}"
            )


CPU: Final = Device("cpu", "pip install torch")

DEVICES: Final[Mapping[str, Device]] = {
    "cuda": Device(  # NVIDIA and AMD GPUs
        "cuda",
        install="pip install torch (its CUDA build; on AMD its ROCm build)",
        hardware="an NVIDIA or AMD GPU",
        available="torch.cuda:is_available",
        label="torch.cuda:get_device_name",
        synchronise="torch.cuda:synchronize",
        stacks=(("ROCm", "torch.version:hip"), ("CUDA", "torch.version:cuda")),
        compiler_package="triton",
    ),
    "xpu": Device(  # Intel GPUs
        "xpu",
        install="pip install torch (its XPU build)",
        hardware="an Intel GPU",
        available="torch.xpu:is_available",
        label="torch.xpu:get_device_name",
        synchronise="torch.xpu:synchronize",
        stacks=(("SYCL", "torch.version:xpu"),),
        compiler_package="triton",
    ),
    "hpu": Device(  # Intel Gaudi
        "hpu",
        install="pip install habana-torch-plugin (on a Gaudi host, with the SynapseAI stack)",
        hardware="an Intel Gaudi",
        package="habana_frameworks.torch.core",
        distribution="habana-torch-plugin",
        available="torch.hpu:is_available",
        label="torch.hpu:get_device_name",
        synchronise="torch.hpu:synchronize",
        lacks=("complex64", "complex128"),
        compiler="hpu_backend",
    ),
    "mps": Device(  # Apple GPUs
        "mps",
        install="pip install torch (on a Mac with Apple silicon)",
        hardware="an Apple GPU",
        available="torch.backends.mps:is_available",
        synchronise="torch.mps:synchronize",
        lacks=("float64", "complex128"),
    ),
    "npu": Device(  # Huawei Ascend
        "npu",
        install="pip install torch_npu (on an Ascend host, with CANN)",
        hardware="a Huawei Ascend",
        package="torch_npu",
        distribution="torch_npu",
        available="torch.npu:is_available",
        label="torch.npu:get_device_name",
        synchronise="torch.npu:synchronize",
    ),
    "xla": Device(  # Google TPUs and other XLA devices
        "xla",
        install="pip install 'torch_xla[tpu]'",
        hardware="a Google TPU",
        package="torch_xla",
        distribution="torch_xla",
        available="torch_xla.runtime:device_type",
        label="torch_xla.runtime:device_type",
        synchronise="torch_xla:sync",
        tally="mindgap.platforms.torch.xla_fallback:watch",
        seed="torch_xla:manual_seed",
        stacks=(("torch_xla", "torch_xla:__version__"),),
        compiler="openxla",
    ),
}
"""Every device of torch that mindgap knows, by its name in a platform's name."""


def _attribute(path: str) -> Any:
    module, _, attribute = path.partition(":")
    return getattr(importlib.import_module(module), attribute, None)


def _function(path: str) -> Callable[..., Any]:
    """A function that a device's package offers.

    `torch.npu` and `torch.hpu` are attributes that a package adds to torch and not importable modules.
    """
    module, _, attribute = path.partition(":")
    owner: Any = importlib.import_module(module.split(".")[0])
    for part in [*module.split(".")[1:], attribute]:
        if not hasattr(owner, part):
            owner = importlib.import_module(module)
            return getattr(owner, attribute)  # type: ignore[no-any-return]
        owner = getattr(owner, part)
    return owner  # type: ignore[no-any-return]

"""torch, operator by operator, on the CPU or any device that torch knows."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import Any, ClassVar

import torch

from mindgap.platforms.base import Prepared, Profile, StageClock
from mindgap.platforms.probing import guarded, working
from mindgap.platforms.reproducer import ReproducerText
from mindgap.platforms.torch.devices import DEVICES
from mindgap.platforms.torch.script import WITHOUT_MKLDNN, on_torch
from mindgap.platforms.torch.torch_run import (
    PlacedCall,
    Placement,
    State,
    TorchPlatform,
    TorchRun,
    call_with,
    own_model,
    own_program,
    without_mkldnn,
)
from mindgap.program.case import Case
from mindgap.program.interpret import Executable
from mindgap.records.outcome import Ran, Stage
from mindgap.records.platform import PlatformSpec, Probe
from mindgap.records.tensors import DTYPES


class Eager(TorchPlatform):
    """The user's module as torch runs it by default."""

    runtime = "eager"
    summary = "torch eager"
    install = "pip install torch"
    profiles: ClassVar = {
        "scalar": Profile("torch eager without vector instructions", env={"ATEN_CPU_CAPABILITY": "default"}),
        "nomkldnn": Profile("torch eager without oneDNN kernels", options={"mkldnn": False}),
    }
    devices: ClassVar = {name: device.install for name, device in DEVICES.items()}
    options: ClassVar = TorchPlatform.options | {"mkldnn": "whether oneDNN kernels may be used (true)"}

    def probe(self) -> Probe:
        return guarded(lambda: probe_device(self))

    def prepare(self, case: Case, clock: StageClock) -> Prepared:
        with clock(Stage.LOAD):
            placement = self.placement_for(case)
            model = own_model(case, placement)
            if model is not None:
                return TorchRun(case, placement, Ran.SOURCE, self.settings(call_with(case, model)), State(model))
            executable = Executable(own_program(case, placement), case.constants, placement.device)
            return TorchRun(case, placement, Ran.PROGRAM, self.settings(executable.run))

    def settings(self, call: PlacedCall) -> PlacedCall:
        """The call under the options of this platform."""
        around = contextlib.nullcontext if self.spec.options.get("mkldnn", True) else without_mkldnn

        def run(tensors: Sequence[torch.Tensor]) -> Any:
            with around():
                return call(tensors)

        return run

    @classmethod
    def reproducer(cls, spec: PlatformSpec) -> ReproducerText:
        return on_torch(spec, "model", [] if spec.options.get("mkldnn", True) else [WITHOUT_MKLDNN])


def probe_device(platform: TorchPlatform) -> Probe:
    """Version, name and element types of a platform's device, or why it cannot be used."""
    placement = platform.placement
    kind = placement.kind
    version = " ".join(filter(None, [torch.__version__, kind.stack()]))
    if not kind.is_available():
        return Probe(False, version, reason=f"torch {torch.__version__} finds no {kind.torch_device} device")
    dtypes = working([name for name in DTYPES if name not in kind.lacks], lambda name: _adds(name, placement))
    name = f"CPU {torch.backends.cpu.get_cpu_capability()}" if placement.device is None else kind.name()
    return Probe(True, version, name, dtypes)


def _adds(dtype: str, placement: Placement) -> bool:
    """Whether 1 + 1 (true + true) is right on the device."""
    one = torch.ones(2, dtype=DTYPES[dtype]).to(placement.device or "cpu")
    total = (one + one).cpu()
    placement.kind.wait()
    return bool((total.to(torch.complex128) == (1 if dtype == "bool" else 2)).all())

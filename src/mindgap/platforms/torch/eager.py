"""torch, operator by operator, on the CPU or any device that torch knows."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Any, ClassVar

import torch

from mindgap.platforms.base import FALLBACK, FALLBACK_MEANS, Prepared, Profile, StageClock, thread_knobs
from mindgap.platforms.ladder import Ladder
from mindgap.platforms.reproducer import ReproducerText
from mindgap.platforms.torch import emulation, knobs
from mindgap.platforms.torch.devices import DEVICES
from mindgap.platforms.torch.other_versions import RECIPES, VERSIONS
from mindgap.platforms.torch.presets import PRESETS, policies_of, script_of
from mindgap.platforms.torch.script import WITHOUT_MKLDNN, on_torch
from mindgap.platforms.torch.torch_run import (
    PlacedCall,
    Placement,
    TorchPlatform,
    TorchRun,
    call_with,
    own_model,
    own_program,
)
from mindgap.program.case import Case
from mindgap.program.interpret import Executable
from mindgap.program.state import ModuleState
from mindgap.records.outcome import Ran, Stage
from mindgap.records.platform import PlatformSpec


class Eager(TorchPlatform):
    """The user's module as torch runs it by default."""

    runtime = "eager"
    summary = "torch eager"
    install = "pip install torch"
    profiles: ClassVar = {
        "scalar": Profile("torch eager without vector instructions", env={"ATEN_CPU_CAPABILITY": "default"}),
        "nomkldnn": Profile("torch eager without oneDNN kernels", options={"mkldnn": False}),
        **{name: preset.profile for name, preset in PRESETS.items()},
        **{name: version.profile("torch eager") for name, version in VERSIONS.items()},
    }
    recipes: ClassVar = RECIPES
    devices: ClassVar = {name: device.install for name, device in DEVICES.items()}
    options: ClassVar = TorchPlatform.options | {
        "emulate": "policies of other hardware, acted out on the CPU",
        FALLBACK: f"{FALLBACK_MEANS}; of XLA devices",
    }

    def prepare(self, case: Case, clock: StageClock) -> Prepared:
        with clock(Stage.LOAD):
            placement = self.placement_for(case)
            model = own_model(case, placement)
            if model is not None:
                return TorchRun(case, placement, Ran.SOURCE, self.settings(call_with(case, model)), ModuleState(model))
            executable = Executable(own_program(case, placement), case.constants, placement.device)
            return TorchRun(case, placement, Ran.PROGRAM, self.settings(executable.run))

    def settings(self, call: PlacedCall) -> PlacedCall:
        """The call under the options of this platform."""

        def run(tensors: Sequence[torch.Tensor]) -> Any:
            with self.around():
                return call(tensors)

        return run

    def around(self) -> AbstractContextManager[Any]:
        """The options of this platform in force."""
        if policies_of(self.spec):
            return emulation.emulated(policies_of(self.spec))
        return knobs.chosen(self.spec)

    def one_and_one(self, dtype: torch.dtype, placement: Placement) -> torch.Tensor:
        with self.around():
            return super().one_and_one(dtype, placement)

    @classmethod
    def ladder(cls, spec: PlatformSpec) -> Ladder | None:
        found = (*knobs.torch_knobs(spec), *thread_knobs(spec))
        return Ladder(knobs=found) if found else None

    @classmethod
    def reproducer(cls, spec: PlatformSpec) -> ReproducerText:
        if policies_of(spec):
            return script_of(spec)
        return on_torch(spec, "model", [] if spec.options.get(knobs.MKLDNN, True) else [WITHOUT_MKLDNN])

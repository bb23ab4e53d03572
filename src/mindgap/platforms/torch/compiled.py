"""torch.compile: the whole compiler (inductor), and its front half with eager kernels (aot_eager)."""

from __future__ import annotations

import contextlib
import os
import shutil
import sys
import traceback
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any, ClassVar, Final

import torch

from mindgap.platforms.base import (
    FALLBACK,
    FALLBACK_MEANS,
    Prepared,
    StageClock,
    StageFailure,
    status_of,
    thread_knobs,
)
from mindgap.platforms.ladder import Ladder
from mindgap.platforms.reproducer import ReproducerText
from mindgap.platforms.torch import interpreted, knobs
from mindgap.platforms.torch.devices import DEVICES, Device
from mindgap.platforms.torch.layers import DISABLED, PASSES, knobs_for, rungs_to
from mindgap.platforms.torch.one_unit import one_translation_unit
from mindgap.platforms.torch.other_versions import RECIPES, VERSIONS
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
from mindgap.program.convert import to_graph_module
from mindgap.program.interpret import Executable
from mindgap.program.state import ModuleState
from mindgap.records.outcome import Ran, Stage, Status
from mindgap.records.platform import PlatformSpec, Probe

UNITS: Final = "translation_units"


class CompiledPlatform(TorchPlatform):
    """The user's module under torch.compile, with proof that something was compiled."""

    options: ClassVar = TorchPlatform.options | {
        "backend": "another torch.compile backend",
        "mode": "torch.compile's mode",
        "dynamic": "torch.compile's dynamic: true, false, or automatic when not set",
        "inductor": 'switches of torch._inductor.config: { "cpp.simdlen" = 0 }',
        FALLBACK: f"{FALLBACK_MEANS}; of inductor@triton and XLA devices",
        DISABLED: "names of passes of inductor to switch off (none)",
        UNITS: "one: all C++ kernels of a program in one translation unit, for programs of many small parts",
    }
    compares_with_eager_of_its_device = True
    brought_by: ClassVar[str] = ""
    """The package that must be imported for torch.compile to know the backend."""

    @classmethod
    @abstractmethod
    def backend(cls, kind: Device) -> str:
        """The name that torch.compile knows it by on a kind of device."""

    def prepare(self, case: Case, clock: StageClock) -> Prepared:
        with clock(Stage.LOAD):
            placement = self.placement_for(case)
            model = own_model(case, placement)
            ran = Ran.PROGRAM if model is None else Ran.SOURCE
            if model is None:
                model = to_graph_module(own_program(case, placement), case.constants)
                model = model if placement.device is None else model.to(placement.device)
        with clock(Stage.COMPILE):
            compiled = self.compile(model, placement)
            call = self.settings(call_with(case, compiled) if ran is Ran.SOURCE else lambda given: compiled(*given))
            # A program works on copies of the constants that it writes to: it has no state.
            prepared = TorchRun(
                case, placement, ran, call, ModuleState(model if ran is Ran.SOURCE else None), compiled=True
            )
            tally = interpreted.start() if interpreted.is_interpreted(_switches(self.spec)) else None
            told = placement.kind.watch(compiled=True)
            call_first(prepared, case, placement, clock)
            prepared.fallback = told()
            prepared.note = what_was_compiled()
            if tally is not None:
                prepared.note = "; ".join(filter(None, [tally.note(), prepared.note]))
                prepared.fallback = tally.fallback()
        return prepared

    def surely_refuses(self, case: Case) -> bool:
        """The compiler first propagates fake tensors; what fails there fails at once."""
        from torch._subclasses.fake_tensor import FakeTensorMode

        if case.program is None:
            return False
        try:
            with FakeTensorMode(allow_non_fake_inputs=True) as mode, torch.no_grad():
                tensors = [mode.from_tensor(tensor) for tensor in case.tensors]
                Executable(case.program, case.constants).run(tensors)
        except Exception:
            return True
        return False

    def compile(self, model: Any, placement: Placement) -> Any:
        """The model as a compiled callable; it compiles when it is first called."""
        from torch._dynamo.utils import counters
        from torch._inductor import config as inductor

        inductor.compile_threads = 1  # no pool of processes that outlives the request
        torch.compiler.reset()
        counters.clear()
        backend = self.spec.options.get("backend") or self.backend(placement.kind)
        return torch.compile(model, backend=backend, **_chosen(self.spec))  # type: ignore[call-overload]

    def settings(self, call: PlacedCall) -> PlacedCall:
        """The call under the switches of inductor that this platform sets."""
        from torch._inductor import config

        switches = _switches(self.spec)
        unknown = [name for name in switches if not _exists(config, name)]
        if unknown:
            raise StageFailure(Status.UNSUPPORTED, f"inductor has no switch {unknown[0]} in torch {torch.__version__}")

        switches |= {name: False for name in disabled_in(self.spec) if _exists(config, name)}
        one_unit = self.spec.options.get(UNITS) == "one"

        def run(tensors: Sequence[torch.Tensor]) -> Any:
            units = one_translation_unit() if one_unit else contextlib.nullcontext()
            with config.patch(switches), units, knobs.chosen(self.spec):
                return call(tensors)

        return run

    @classmethod
    def reproducer(cls, spec: PlatformSpec) -> ReproducerText:
        backend = spec.options.get("backend") or cls.backend(cls.kind_of(spec))
        chosen = {"backend": backend, **_chosen(spec)}
        call = f"torch.compile(model, {', '.join(f'{key}={value!r}' for key, value in chosen.items())})"
        switches = _switches(spec) | dict.fromkeys(disabled_in(spec), False)
        around = [f"torch._inductor.config.patch({switches!r})"] if switches else []
        around += [] if spec.options.get(knobs.MKLDNN, True) else [WITHOUT_MKLDNN]
        text = on_torch(spec, call, around, cls.brought_by)
        if not interpreted.is_interpreted(switches):
            return text
        return replace(text, text=interpreted.script(text.text), short=(), packages=("triton",))

    @classmethod
    def ladder(cls, spec: PlatformSpec) -> Ladder:
        backend = str(spec.options.get("backend") or cls.backend(cls.kind_of(spec)))
        own = knobs_for(spec) if backend == "inductor" else ()
        other = (interpreted.CPP_INSTEAD,) if interpreted.is_interpreted(_switches(spec)) else ()
        passes = PASSES if backend == "inductor" else None
        return Ladder(rungs_to(backend), (*own, *knobs.torch_knobs(spec), *thread_knobs(spec), *other), passes)

    def status_of(self, error: Exception, stage: Stage) -> Status:
        """Dynamo's messages hold pages of advice, whose words say nothing: judge by the cause."""
        if stage is not Stage.COMPILE or isinstance(error, StageFailure):
            return status_of(error, stage)
        if "NotImplementedError" in str(error) or type(error).__name__ == "Unsupported":
            return Status.UNSUPPORTED
        status = status_of(RuntimeError(self.message_of(error)), stage)
        # Propagation with fake tensors refuses what eager would refuse: the values never got that far.
        refused = type(error).__name__ == "TorchRuntimeError" and status is Status.ERROR
        return Status.REJECTED if refused else status


class AotEager(CompiledPlatform):
    """Dynamo and AOT Autograd, then eager kernels: tells front-end faults from code-generation faults."""

    runtime = "aot_eager"
    summary = "torch.compile without code generation"
    install = "pip install torch"

    @classmethod
    def backend(cls, kind: Device) -> str:
        return "aot_eager"


class Inductor(CompiledPlatform):
    """torch.compile as users call it."""

    runtime = "inductor"
    summary = "torch.compile"
    install = "apt-get install g++"
    packages = (*TorchPlatform.packages, "triton")
    in_crowds: ClassVar = {UNITS: "one"}
    devices: ClassVar = {name: device.install for name, device in DEVICES.items()}
    profiles: ClassVar = {
        "triton": interpreted.PROFILE,
        **{name: version.profile("torch.compile") for name, version in VERSIONS.items()},
    }
    recipes: ClassVar = {"@triton": interpreted.RECIPE, **RECIPES}

    @classmethod
    def backend(cls, kind: Device) -> str:
        return kind.compiler

    def probe_device(self) -> Probe:
        probe = super().probe_device()
        by_triton = interpreted.is_interpreted(_switches(self.spec))
        missing = interpreted.what_is_missing() if by_triton else missing_compiler(self.placement)
        return Probe(False, probe.version, probe.device, reason=missing) if probe.available and missing else probe


def _chosen(spec: PlatformSpec) -> dict[str, object]:
    """The arguments of torch.compile that a platform sets."""
    return {key: spec.options[key] for key in ("mode", "dynamic") if spec.options.get(key) is not None}


def _switches(spec: PlatformSpec) -> dict[str, object]:
    """The switches of inductor that a platform sets."""
    chosen = spec.options.get("inductor")
    return dict(chosen) if isinstance(chosen, Mapping) else {}


def disabled_in(spec: PlatformSpec) -> tuple[str, ...]:
    """The passes of inductor that a platform switches off."""
    names = spec.options.get(DISABLED)
    return tuple(map(str, names)) if isinstance(names, list | tuple) else ()


def _exists(config: Any, name: str) -> bool:
    try:
        getattr(config, name)
    except AttributeError:
        return False
    return True


def missing_compiler(placement: Placement) -> str:
    """What inductor would need and does not find here, or nothing."""
    package = placement.kind.compiler_package
    if package and find_spec(package) is None:
        return f"{package} is not installed"
    default = {"darwin": "clang++", "win32": "cl"}.get(sys.platform, "g++")
    command = os.environ.get("CXX", default)
    if placement.device is None and shutil.which(command) is None:
        return f"no C++ compiler: {command} not found"
    return ""


def call_first(prepared: TorchRun, case: Case, placement: Placement, clock: StageClock) -> None:
    """Compile by calling; what compiled or eager code does in this call, dying included, belongs to the run."""
    from torch._dynamo.callback import callback_handler

    def starts(*_: Any) -> None:
        clock.enter(Stage.COMPILE)

    def ends(*_: Any) -> None:
        clock.enter(Stage.RUN)

    tensors = [placement.put(tensor) for tensor in case.tensors]
    callback_handler.register_start_callback(starts)
    callback_handler.register_end_callback(ends)
    try:
        prepared.result(tensors)
    except Exception as error:
        clock.current = Stage.COMPILE if is_from_compiling(error) else Stage.RUN
        raise
    finally:
        callback_handler.remove_start_callback(starts)
        callback_handler.remove_end_callback(ends)
    clock.current = Stage.COMPILE


def is_from_compiling(error: BaseException) -> bool:
    """Whether the compiler raised it, not the code that it made or left to eager."""
    if any(cls.__module__ in ("torch._dynamo.exc", "torch._inductor.exc") for cls in type(error).__mro__):
        return True
    frames = traceback.extract_tb(error.__traceback__)
    return any(Path(frame.filename).parts[-3:] == ("torch", "_dynamo", "convert_frame.py") for frame in frames)


def what_was_compiled() -> str:
    """How many graphs there are and why there is more than one; raises when there is none."""
    from torch._dynamo.utils import counters

    graphs = counters["stats"]["unique_graphs"]
    breaks = counters["graph_break"] or counters["unimplemented"]
    reasons = list(dict.fromkeys(str(reason).strip().splitlines()[0] for reason in breaks))
    if not graphs:
        reason = "; ".join(reasons) or "it has no operator to compile"
        raise StageFailure(Status.UNSUPPORTED, f"not compiled: {reason}")
    if not breaks:
        return ""
    count = sum(breaks.values())
    shown = "; ".join(reasons[:3]) + (f"; and {len(reasons) - 3} more" if len(reasons) > 3 else "")
    return f"{_many(graphs, 'graph')}, {_many(count, 'graph break')}: {shown}"


def _many(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"

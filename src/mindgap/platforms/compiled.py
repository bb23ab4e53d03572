"""torch.compile: the whole compiler (inductor), and its front half with eager kernels (aot_eager)."""

from __future__ import annotations

import os
import shutil
import sys
import traceback
from abc import abstractmethod
from importlib.util import find_spec
from pathlib import Path
from typing import Any, ClassVar

import torch

from mindgap.platforms.base import Prepared, StageClock, StageFailure, status_of
from mindgap.platforms.devices import DEVICES
from mindgap.platforms.eager import probe_device
from mindgap.platforms.messages import first_cause
from mindgap.platforms.probing import guarded
from mindgap.platforms.torch_run import (
    Placement,
    State,
    TorchPlatform,
    TorchRun,
    call_with,
    own_model,
    own_program,
)
from mindgap.program.case import Case
from mindgap.program.convert import to_graph_module
from mindgap.records.outcome import Ran, Stage, Status
from mindgap.records.platform import Probe


class CompiledPlatform(TorchPlatform):
    """The user's module under torch.compile, with proof that something was compiled."""

    options: ClassVar = TorchPlatform.options | {
        "backend": "another torch.compile backend",
        "mode": "torch.compile's mode",
        "dynamic": "torch.compile's dynamic: true, false, or automatic when not set",
    }

    @abstractmethod
    def backend(self, placement: Placement) -> str:
        """The name that torch.compile knows it by."""

    def probe(self) -> Probe:
        return guarded(lambda: probe_device(self))

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
            call = call_with(case, compiled) if ran is Ran.SOURCE else lambda tensors: compiled(*tensors)
            # A program works on copies of the constants that it writes to: it has no state.
            prepared = TorchRun(case, placement, ran, call, State(model if ran is Ran.SOURCE else None))
            call_first(prepared, case, placement, clock)
            prepared.note = what_was_compiled()
        return prepared

    def compile(self, model: Any, placement: Placement) -> Any:
        """The model as a compiled callable; it compiles when it is first called."""
        from torch._dynamo.utils import counters
        from torch._inductor import config as inductor

        inductor.compile_threads = 1  # no pool of processes that outlives the request
        torch.compiler.reset()
        counters.clear()
        backend = self.spec.options.get("backend", self.backend(placement))
        chosen = {key: self.spec.options[key] for key in ("mode", "dynamic") if key in self.spec.options}
        return torch.compile(model, backend=backend, **chosen)  # type: ignore[call-overload]

    def status_of(self, error: Exception, stage: Stage) -> Status:
        """Dynamo's messages hold pages of advice, whose words say nothing: judge by the cause."""
        if stage is not Stage.COMPILE or isinstance(error, StageFailure):
            return status_of(error, stage)
        if "NotImplementedError" in str(error) or type(error).__name__ == "Unsupported":
            return Status.UNSUPPORTED
        status = status_of(RuntimeError(first_cause(error)), stage)
        # Propagation with fake tensors refuses what eager would refuse: the values never got that far.
        refused = type(error).__name__ == "TorchRuntimeError" and status is Status.ERROR
        return Status.REJECTED if refused else status


class AotEager(CompiledPlatform):
    """Dynamo and AOT Autograd, then eager kernels: tells front-end faults from code-generation faults."""

    runtime = "aot_eager"
    summary = "torch.compile without code generation"
    install = "pip install torch"

    def backend(self, placement: Placement) -> str:
        return "aot_eager"


class Inductor(CompiledPlatform):
    """torch.compile as users call it."""

    runtime = "inductor"
    summary = "torch.compile"
    install = "apt-get install g++"
    devices: ClassVar = {name: device.install for name, device in DEVICES.items()}

    def backend(self, placement: Placement) -> str:
        return placement.kind.compiler

    def probe(self) -> Probe:
        def ask() -> Probe:
            probe = probe_device(self)
            missing = missing_compiler(self.placement)
            if not probe.available or not missing:
                return probe
            return Probe(False, probe.version, probe.device, reason=missing)

        return guarded(ask)


def missing_compiler(placement: Placement) -> str:
    """What inductor would need and does not find here, or nothing."""
    package = placement.kind.compiler_package
    if package and find_spec(package) is None:
        return f"{package} is not installed"
    default = {"darwin": "clang++", "win32": "cl"}.get(sys.platform, "g++")
    command = os.environ.get("CXX", default)
    if placement.device is None and shutil.which(command) is None:
        return f"there is no C++ compiler: {command} is not found"
    return ""


def call_first(prepared: TorchRun, case: Case, placement: Placement, clock: StageClock) -> None:
    """Compile by calling; what compiled or eager code does in this call, dying included, belongs to the run."""
    from torch._dynamo.callback import callback_handler

    def starts(*_: Any) -> None:
        clock.enter(Stage.COMPILE)

    def ends(*_: Any) -> None:
        clock.enter(Stage.RUN)

    tensors = [placement.put(item) for item in case.inputs.tensors]
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
        reason = "; ".join(reasons) or "it holds no operator that could be compiled"
        raise StageFailure(Status.UNSUPPORTED, f"not compiled: {reason}")
    if not breaks:
        return ""
    count = sum(breaks.values())
    shown = "; ".join(reasons[:3]) + (f"; and {len(reasons) - 3} more" if len(reasons) > 3 else "")
    return f"{_many(graphs, 'graph')}, {_many(count, 'graph break')}: {shown}"


def _many(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"

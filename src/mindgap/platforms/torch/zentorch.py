"""zentorch, AMD's plug-in for torch.compile: ZenDNN's kernels for products and embeddings, inductor for the rest.

It optimises only on processors with AVX-512; elsewhere it hands everything to inductor without a word, which would be
another name for `inductor`. So it is unavailable there, and each run says which share of the operations it took over.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module, metadata
from typing import Any, ClassVar, Final

import torch

from mindgap.platforms.base import FALLBACK, FALLBACK_MEANS, Fallback, Prepared, StageClock
from mindgap.platforms.recipe import Recipe
from mindgap.platforms.torch.compiled import CompiledPlatform, missing_compiler
from mindgap.platforms.torch.devices import Device
from mindgap.platforms.torch.torch_run import TorchPlatform
from mindgap.program.case import Case
from mindgap.records.platform import Probe

RECIPE: Final = Recipe(
    "zentorch",
    "AMD's zentorch on this CPU: ZenDNN's products and embeddings in torch.compile, inductor for the rest",
    pins=("zentorch==2.13.0.2", "Deprecated==1.3.1", "wrapt==2.5.2", "safetensors==0.8.0"),
    size_mb=131,
    lacks="mindgap.platforms.torch.zentorch:missing_hardware",
)


@dataclass
class Taken:
    """What became of the operations of the graphs that were compiled since it was cleared."""

    ours: int = 0
    """Operations that zentorch put its own in the place of."""
    left: int = 0
    """Operations that inductor compiles."""


TAKEN: Final = Taken()
"""Of this worker, which runs one program at a time."""


class Zentorch(CompiledPlatform):
    """torch.compile with zentorch's backend."""

    runtime = "zentorch"
    summary = RECIPE.really
    packages = (*TorchPlatform.packages, "zentorch")
    brought_by = "zentorch"
    hardware: ClassVar = {}
    options: ClassVar = CompiledPlatform.options | {FALLBACK: FALLBACK_MEANS}
    recipes: ClassVar = {"": RECIPE}

    @classmethod
    def backend(cls, kind: Device) -> str:
        return "zentorch"

    def probe_device(self) -> Probe:
        probe = super().probe_device()
        missing = _missing_instructions() or missing_compiler(self.placement)
        if missing:
            return Probe(False, probe.version, probe.device, reason=missing)
        import_module("zentorch")
        return Probe(True, metadata.version("zentorch"), probe.device, probe.dtypes)

    def prepare(self, case: Case, clock: StageClock) -> Prepared:
        _count()
        TAKEN.ours = TAKEN.left = 0
        prepared = super().prepare(case, clock)
        taken = f"zentorch took over {TAKEN.ours} of {TAKEN.ours + TAKEN.left} operations"
        prepared.note = "; ".join(filter(None, [taken, prepared.note]))
        prepared.fallback = Fallback(TAKEN.left / max(TAKEN.ours + TAKEN.left, 1), "inductor")
        return prepared


def missing_hardware() -> str:
    """What this machine lacks."""
    return "a processor with AVX-512" if _missing_instructions() else ""


def _missing_instructions() -> str:
    found = torch.backends.cpu.get_cpu_capability()
    if found == "AVX512":
        return ""
    return f"it optimises only with AVX-512, and this processor has {found}: it would be inductor under another name"


@functools.cache
def _count() -> None:
    """Count in each graph what zentorch put in; once per process."""
    backend: Any = import_module("zentorch._compile_backend")

    def counted(optimise: Callable[[torch.fx.Graph], Any]) -> Callable[[torch.fx.Graph], Any]:
        def run(graph: torch.fx.Graph) -> Any:
            result = optimise(graph)
            for node in graph.nodes:
                if isinstance(node.target, torch._ops.OpOverload):
                    if node.target.namespace == "zentorch":
                        TAKEN.ours += 1
                    else:
                        TAKEN.left += 1
            return result

        return run

    backend.optimize = counted(backend.optimize)

"""Inductor's Triton code on this processor: what a GPU's code generator writes, run by Triton's own interpreter.

Inductor is told to generate Triton kernels for CPU tensors, and `TRITON_INTERPRET=1` makes Triton run a kernel block by
block with numpy. This is the program that a GPU would get: its indices, masks, reductions, promotions and fusion. It is
not the GPU's arithmetic: no PTX, no tensor cores, no parallel order. What inductor leaves to ATen (convolutions,
matrix products) is eager again, so each run says how much that was.

Three parts that a GPU brings are missing here, and have stand-ins (`triton_stand_ins.py`).
"""

from __future__ import annotations

import functools
import inspect
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from importlib.util import find_spec
from typing import Any, Final

import torch

from mindgap.platforms.base import Fallback, Profile, StageFailure
from mindgap.platforms.ladder import Knob
from mindgap.platforms.recipe import Recipe
from mindgap.platforms.torch import triton_stand_ins
from mindgap.records.outcome import Status

SWITCHES: Final = {"cpu_backend": "triton"}
"""Switches of inductor that select its Triton code for tensors of the CPU."""

PROFILE: Final = Profile(
    "inductor's GPU code generator, its Triton kernels run by Triton's interpreter on this CPU: indexing, masks, "
    "reductions, promotion, lowering - not GPU arithmetic",
    # A graph from inductor's cache would run without being counted.
    env={"TRITON_INTERPRET": "1", "TORCHINDUCTOR_FORCE_DISABLE_CACHES": "1"},
    options={"inductor": SWITCHES},
)

RECIPE: Final = Recipe("inductor@triton", PROFILE.summary, pins=("triton==3.7.1",), size_mb=633)

CPP_INSTEAD: Final = Knob(
    "C++ instead of Triton",
    {"inductor": {"cpu_backend": "cpp"}},
    "Triton code generation",
    "inductor generates C++ instead of Triton",
)
"""Tells a fault of the Triton code from one of the lowering that both share."""


def is_interpreted(switches: object) -> bool:
    """Whether these switches of inductor ask for Triton code on the CPU."""
    return isinstance(switches, dict) and switches.get("cpu_backend") == "triton"


def what_is_missing() -> str:
    """Why Triton kernels cannot be interpreted here, or nothing."""
    if find_spec("triton") is None:
        return "triton is not installed"
    try:
        _install()
    except ImportError as error:  # another version of triton or torch, whose parts have other names
        return f"this triton has no interpreter that fits torch {torch.__version__}: {error}"
    return ""


@dataclass
class Tally:
    """What became of the operations of the programs that were compiled since it was cleared."""

    interpreted: int = 0
    """Kernels that the interpreter really ran."""
    generated: int = 0
    """Operations that inductor wrote Triton code for, before fusion."""
    left: Counter[str] = field(default_factory=Counter)
    """Operations that it left to ATen, by name."""

    def clear(self) -> None:
        self.interpreted = self.generated = 0
        self.left = Counter()

    def note(self) -> str:
        """`2 Triton kernels interpreted; left to ATen: convolution x2, mm`."""
        kernels = f"{self.interpreted or 'no'} Triton kernel{'' if self.interpreted == 1 else 's'} interpreted"
        names = ", ".join(name if count == 1 else f"{name} x{count}" for name, count in self.left.most_common(4))
        more = f" and {len(self.left) - 4} more" if len(self.left) > 4 else ""
        return f"{kernels}; left to ATen: {names}{more}" if names else kernels

    def fallback(self) -> Fallback:
        """The share of operations that got no Triton kernel."""
        left = self.left.total()
        return Fallback(left / max(left + self.generated, 1), "ATen, which is eager again")


TALLY: Final = Tally()
"""Of this worker, which runs one program at a time."""


def start() -> Tally:
    """Make this process generate and interpret Triton code; the tally starts anew."""
    missing = what_is_missing()
    if missing:
        raise StageFailure(Status.UNSUPPORTED, missing)
    TALLY.clear()
    return TALLY


@functools.cache
def _install() -> None:
    """Once per process: the worker serves this platform alone."""
    from torch._inductor import scheduler
    from torch._inductor.runtime.triton_heuristics import CachingAutotuner

    triton_stand_ins.use_stand_ins()
    CachingAutotuner.run = _counted(CachingAutotuner.run)  # type: ignore[method-assign]
    scheduler.Scheduler.codegen = _tallied(scheduler.Scheduler.codegen)  # type: ignore[method-assign]


def _counted(run: Callable[..., Any]) -> Callable[..., Any]:
    def counted(self: Any, *args: Any, **kwargs: Any) -> Any:
        TALLY.interpreted += 1
        return run(self, *args, **kwargs)

    return counted


def _tallied(codegen: Callable[..., Any]) -> Callable[..., Any]:
    """Notes, just before code is written, which operations get a Triton kernel and which a call of ATen."""
    from torch._inductor.scheduler import ExternKernelSchedulerNode, NopKernelSchedulerNode

    def tallied(self: Any) -> Any:
        for node in (part for whole in self.nodes for part in whole.get_nodes()):
            if isinstance(node, ExternKernelSchedulerNode):
                name = _operation(node.node)
                if name:
                    TALLY.left[name] += 1
            elif not isinstance(node, NopKernelSchedulerNode):
                TALLY.generated += 1
        return codegen(self)

    return tallied


def _operation(node: Any) -> str:
    """The ATen operator of an external kernel; empty for those that only pick a result of another one."""
    if type(node).__name__ == "MultiOutput":
        return ""
    operator = getattr(node, "op_overload", None)
    known = getattr(node, "python_kernel_name", "") or type(node).__name__
    name = str(known if operator is None else operator)
    return name.removeprefix("torch.ops.").removeprefix("extern_kernels.").removeprefix("aten.").split(".")[0]


def script(on_torch: str) -> str:
    """The text of a script on torch, with the stand-ins before it."""
    source = inspect.getsource(triton_stand_ins)
    lines = source[source.index("from collections.abc") :].replace("import torch\n\n", "", 1)
    head, _, body = on_torch.partition("\n")
    return f"{lines}\n\n{head}\n    use_stand_ins()\n{body}"

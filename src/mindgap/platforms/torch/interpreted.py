"""Inductor's Triton code on this processor: what a GPU's code generator writes, run by Triton's own interpreter.

Inductor is told to generate Triton kernels for CPU tensors, and `TRITON_INTERPRET=1` makes Triton run a kernel block by
block with numpy. This is the program that a GPU would get: its indices, masks, reductions, promotions and fusion. It is
not the GPU's arithmetic: no PTX, no tensor cores, no parallel order. What inductor leaves to ATen (convolutions,
matrix products) is eager again, so each run says how much that was.

Three parts that a GPU brings are missing here, and have stand-ins: a driver that describes the device, libdevice (the
interpreter has stubs that return None), and the interpreter's rounding to bfloat16, which loses carries.
"""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from importlib.util import find_spec
from typing import Any, Final

import torch

from mindgap.platforms.base import Profile, StageFailure
from mindgap.platforms.ladder import Knob
from mindgap.records.outcome import Status

SWITCHES: Final = {"cpu_backend": "triton"}
"""Switches of inductor that select its Triton code for tensors of the CPU."""

PROFILE: Final = Profile(
    "inductor's GPU code generator, its Triton kernels run by Triton's interpreter on this CPU: indexing, masks, "
    "reductions, promotion, lowering - not GPU arithmetic",
    env={"TRITON_INTERPRET": "1"},
    options={"inductor": SWITCHES},
)

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
        """`2 Triton kernels interpreted; 1 of 7 operations left to ATen, which is eager again: convolution`."""
        kernels = f"{self.interpreted} Triton kernel{'' if self.interpreted == 1 else 's'} interpreted"
        left = self.left.total()
        if not left:
            return kernels
        names = ", ".join(name if count == 1 else f"{name} x{count}" for name, count in self.left.most_common(4))
        more = f" and {len(self.left) - 4} more" if len(self.left) > 4 else ""
        share = f"{left} of {left + self.generated} operations left to ATen, which is eager again: {names}{more}"
        return f"{kernels}; {share}" if self.interpreted else f"no Triton kernel: {share}"

    def refuse_fallback(self) -> None:
        """For whoever forbids it: what ATen ran says nothing about Triton code."""
        if self.left:
            raise StageFailure(Status.UNSUPPORTED, f"fallback is forbidden: {self.note()}")


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
    """Put the stand-ins in place, once per process: the worker serves this platform alone."""
    import triton
    from torch._inductor import scheduler
    from torch._inductor.runtime import triton_compat, triton_helpers
    from torch._inductor.runtime.triton_heuristics import CachingAutotuner
    from torch.utils import _triton
    from triton.runtime import interpreter

    triton.runtime.driver.set_active(_driver())
    for module in (_triton, scheduler):
        module.has_triton = lambda: True  # it looks for a GPU
    triton_helpers.libdevice = triton_compat.libdevice = LibDevice()
    interpreter._convert_float = _rounding(interpreter._convert_float)
    CachingAutotuner.run = _counted(CachingAutotuner.run)
    scheduler.Scheduler.codegen = _tallied(scheduler.Scheduler.codegen)


def _driver() -> Any:
    """The description of a GPU that decides what code is generated; nothing is launched through it."""
    from triton.backends.compiler import GPUTarget

    class Driver:
        def get_current_target(self) -> Any:
            return GPUTarget("cuda", 90, 32)

        def get_current_device(self) -> int:
            return 0

        def get_current_stream(self, device: object = None) -> int:
            return 0

        def get_active_torch_device(self) -> torch.device:
            return torch.device("cpu")

        def is_active(self) -> bool:
            return True

    return Driver()


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
    name = str(operator) if operator is not None else str(getattr(node, "python_kernel_name", "") or type(node).__name__)
    return name.removeprefix("torch.ops.").removeprefix("extern_kernels.").removeprefix("aten.").split(".")[0]


def _rounding(convert: Callable[..., Any]) -> Callable[..., Any]:
    """Conversions between float32 and bfloat16 by torch; the interpreter's own lose the carry into the exponent."""
    import numpy as np
    import triton.language as tl
    from triton._C.libtriton import ir

    def converted(data: Any, source: Any, target: Any, rounding: Any) -> Any:
        if source == tl.float32 and target == tl.bfloat16 and rounding == ir.ROUNDING_MODE.RTNE:
            bits = torch.from_numpy(np.array(data, dtype=np.float32)).to(torch.bfloat16).view(torch.uint16)
            return bits.numpy().reshape(data.shape)
        if source == tl.bfloat16 and target == tl.float32:
            values = torch.from_numpy(np.array(data, dtype=np.uint16)).view(torch.bfloat16).float()
            return values.view(torch.int32).numpy().view(np.uint32).reshape(data.shape)
        return convert(data, source, target, rounding)

    return converted


class LibDevice:
    """The functions of NVIDIA's libdevice that inductor calls, by torch on the CPU."""

    def __getattr__(self, name: str) -> Callable[..., Any]:
        function = _FUNCTIONS.get(name)
        if function is None:
            raise AttributeError(f"libdevice.{name} is not implemented in mindgap's stand-in")

        def call(*args: Any) -> Any:
            return _applied(name, function, args)

        return call


def _ilogb(x: torch.Tensor) -> torch.Tensor:
    return torch.frexp(x).exponent - 1


def _fma(x: torch.Tensor, y: torch.Tensor, z: torch.Tensor) -> torch.Tensor:
    """One rounding: float64 holds a product of two float32 exactly."""
    return (x.double() * y.double() + z.double()).to(x.dtype)


_SAME: Final = (
    "acos acosh asin asinh atan atan2 atanh ceil copysign cos cosh erf erfc erfinv exp exp2 expm1 floor fmod hypot "
    "isinf isnan ldexp lgamma log log10 log1p log2 nextafter pow rsqrt signbit sin sinh sqrt tan tanh trunc"
)
"""Named alike in torch."""

_FUNCTIONS: Final[dict[str, Callable[..., torch.Tensor]]] = {
    **{name: getattr(torch, name) for name in _SAME.split()},
    "fabs": torch.abs,
    "nearbyint": torch.round,
    "rint": torch.round,
    "llrint": lambda x: torch.round(x).to(torch.int64),
    "ilogb": _ilogb,
    "cyl_bessel_i0": torch.special.i0,
    "cyl_bessel_i1": torch.special.i1,
    "erfcx": torch.special.erfcx,
    "j0": torch.special.bessel_j0,
    "j1": torch.special.bessel_j1,
    "y0": torch.special.bessel_y0,
    "y1": torch.special.bessel_y1,
    "fast_tanhf": torch.tanh,
    "mul_rn": torch.mul,
    "fma": _fma,
}

_RESULT_TYPES: Final = {"isinf": "int1", "isnan": "int1", "signbit": "int32", "ilogb": "int32", "llrint": "int64"}
"""Where the result is not of the argument's type."""


def _applied(name: str, function: Callable[..., torch.Tensor], args: tuple[Any, ...]) -> Any:
    """A function of torch on the interpreter's blocks."""
    import numpy as np
    import triton.language as tl
    from triton.runtime.interpreter import TensorHandle

    like = next(arg for arg in args if isinstance(arg, tl.core.tensor))
    values = []
    for arg in args:
        if isinstance(arg, tl.core.tensor):
            values.append(torch.as_tensor(np.array(arg.handle.data)))
        else:
            number = arg.value if isinstance(arg, tl.constexpr) else arg
            values.append(torch.tensor(number, dtype=torch.as_tensor(np.array(like.handle.data)).dtype))
    result = function(*torch.broadcast_tensors(*values))
    kind = getattr(tl, _RESULT_TYPES[name]) if name in _RESULT_TYPES else like.dtype.scalar
    data = result.numpy()
    if name in _RESULT_TYPES:
        data = data.astype({"int1": np.bool_, "int32": np.int32, "int64": np.int64}[_RESULT_TYPES[name]])
    return tl.core.tensor(TensorHandle(data, kind), tl.block_type(kind, list(data.shape)) if data.ndim else kind)

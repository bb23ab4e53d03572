"""What a GPU brings and Triton's interpreter lacks, with torch and triton alone: a script can hold this text.

A driver that describes a GPU, so that inductor generates code for one; the functions of libdevice, of which the
interpreter has stubs that return None; and rounding to bfloat16, where the interpreter cuts bits off.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch


def use_stand_ins() -> None:
    """Make this process generate Triton code for tensors of the CPU; TRITON_INTERPRET=1 was set before triton came."""
    import triton
    from torch._inductor import scheduler
    from torch._inductor.runtime import triton_compat, triton_helpers
    from torch.utils import _triton
    from triton.runtime import interpreter

    triton.runtime.driver.set_active(_driver())
    for module in (_triton, scheduler):
        setattr(module, "has_triton", lambda: True)  # noqa: B010 - it looks for a GPU
    for module in (triton_helpers, triton_compat):
        setattr(module, "libdevice", LibDevice())  # noqa: B010
    interpreter._convert_float = _rounding(interpreter._convert_float)


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


def _rounding(convert: Callable[..., Any]) -> Callable[..., Any]:
    """Conversions from float32 to bfloat16 by torch: a GPU rounds to nearest, the interpreter cuts bits off."""
    import numpy as np
    import triton.language as tl
    from triton._C.libtriton import ir

    def converted(data: Any, source: Any, target: Any, rounding: Any) -> Any:
        if source == tl.float32 and target == tl.bfloat16 and rounding != ir.ROUNDING_MODE.RTZ:
            bits = torch.from_numpy(np.array(data, dtype=np.float32)).to(torch.bfloat16).view(torch.uint16)
            return bits.numpy().reshape(data.shape)
        return convert(data, source, target, rounding)

    return converted


class LibDevice:
    """The functions of NVIDIA's libdevice that inductor calls, by torch on the CPU."""

    def __getattr__(self, name: str) -> Callable[..., Any]:
        function = _FUNCTIONS.get(name)
        if function is None:
            raise AttributeError(f"libdevice.{name} is not implemented in this stand-in")

        def call(*args: Any) -> Any:
            return _applied(name, function, args)

        return call


def _ilogb(x: torch.Tensor) -> torch.Tensor:
    return torch.frexp(x).exponent - 1


def _fma(x: torch.Tensor, y: torch.Tensor, z: torch.Tensor) -> torch.Tensor:
    """One rounding: float64 holds a product of two float32 exactly."""
    return (x.double() * y.double() + z.double()).to(x.dtype)


_SAME = (
    "acos acosh asin asinh atan atan2 atanh ceil copysign cos cosh erf erfc erfinv exp exp2 expm1 floor fmod hypot "
    "isinf isnan ldexp lgamma log log10 log1p log2 nextafter pow rsqrt signbit sin sinh sqrt tan tanh trunc"
)
"""Named alike in torch."""

_FUNCTIONS: dict[str, Callable[..., torch.Tensor]] = {
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

_RESULT_TYPES = {"isinf": "int1", "isnan": "int1", "signbit": "int32", "ilogb": "int32", "llrint": "int64"}
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
    result = function(*torch.broadcast_tensors(*values))  # type: ignore[no-untyped-call]
    kind = getattr(tl, _RESULT_TYPES[name]) if name in _RESULT_TYPES else like.dtype.scalar
    data = result.numpy()
    if name in _RESULT_TYPES:
        data = data.astype({"int1": np.bool_, "int32": np.int32, "int64": np.int64}[_RESULT_TYPES[name]])
    return tl.core.tensor(TensorHandle(data, kind), tl.block_type(kind, list(data.shape)) if data.ndim else kind)

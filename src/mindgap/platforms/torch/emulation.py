"""Policies of accelerators that are not here, acted out on the CPU, with torch alone: a script can hold this text.

Each policy changes what one vendor's documentation says its hardware or its torch does by default. It is not the
device: kernels, their order of summation and everything else stay those of this CPU.
"""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

aten = torch.ops.aten

PRODUCTS = (aten.mm, aten.bmm, aten.addmm, aten.baddbmm, aten.addbmm, aten.addmv, aten.mv, aten.dot, aten.linear)
CONVOLUTIONS = (aten.convolution, aten._convolution)
NARROW = (torch.bfloat16, torch.float16)
SPLIT = 32
"""Products that are summed in float32 before the partial sum is rounded."""


def with_mantissa(bits: int, tensor: torch.Tensor) -> torch.Tensor:
    """A float32 tensor rounded to so many bits of mantissa, ties away from zero; everything else is as it was."""
    if tensor.dtype is not torch.float32:
        return tensor
    drop = 23 - bits
    whole = tensor.detach().contiguous().view(torch.int32)
    rounded = ((whole + (1 << (drop - 1))) & -(1 << drop)).view(torch.float32)
    return torch.where(tensor.isfinite(), rounded, tensor)


def narrow_operands(families: Sequence[Any], bits: int) -> Callable[..., Any]:
    """Operators of these families read their float32 operands with a short mantissa; sums stay float32."""

    def policy(function: Any, args: Any, kwargs: Any) -> Any:
        if function.overloadpacket not in families:
            return NotImplemented
        # What is added to a product, and the bias of a convolution, is not an operand of the multiplication.
        first = 1 if function.overloadpacket in (aten.addmm, aten.baddbmm, aten.addbmm, aten.addmv) else 0
        given = list(args)
        for index in (first, first + 1):
            given[index] = with_mantissa(bits, given[index])
        return function(*given, **kwargs)

    return policy


def narrow_sums(function: Any, args: Any, kwargs: Any) -> Any:
    """Products of bfloat16 or float16 matrices: partial sums are rounded to that type."""
    family = function.overloadpacket
    added = family in (aten.addmm, aten.baddbmm)
    if family not in (aten.mm, aten.bmm) and not added:
        return NotImplemented
    left, right = args[1:3] if added else args[:2]
    if left.dtype not in NARROW:
        return NotImplemented
    total = torch.zeros((*left.shape[:-1], right.shape[-1]), dtype=left.dtype)
    for start in range(0, left.shape[-1], SPLIT):
        part = left[..., start : start + SPLIT].float() @ right[..., start : start + SPLIT, :].float()
        total = (total.float() + part).to(left.dtype)
    if not added:
        return total
    alpha, beta = kwargs.get("alpha", 1), kwargs.get("beta", 1)
    product = total if alpha == 1 else total * alpha
    return product if beta == 0 else args[0] * beta + product


def saturating_casts(function: Any, args: Any, kwargs: Any) -> Any:
    """From floating point to integers: out of range becomes the nearest integer that exists, NaN becomes 0."""
    if function.overloadpacket is aten._to_copy:
        source, target = args[0], kwargs.get("dtype")
    elif function.overloadpacket is aten.copy_:
        source, target = args[1], args[0].dtype
    else:
        return NotImplemented
    whole = target is not None and target is not torch.bool and not (target.is_floating_point or target.is_complex)
    if not whole or not source.is_floating_point():
        return NotImplemented
    limits = torch.iinfo(target)
    wide = source.double().nan_to_num(nan=0.0)
    # 2**63 - 1 is no double: what is above becomes the largest integer afterwards.
    cast = wide.clamp(limits.min, limits.max).trunc()
    above = wide >= float(limits.max)
    result = torch.where(above, limits.max, torch.where(above, 0.0, cast).to(torch.int64)).to(target)
    if function.overloadpacket is aten.copy_:
        return function(args[0], result, *args[2:], **kwargs)
    return result


def refuse_float64(function: Any, values: Any) -> None:
    """For hardware without it: no operator may take or make float64."""
    if any(tensor.dtype in (torch.float64, torch.complex128) for tensor in _tensors(values)):
        raise NotImplementedError(f"float64 is not supported by the emulated hardware: {function}")


def _tensors(structure: Any) -> Iterator[torch.Tensor]:
    if isinstance(structure, torch.Tensor):
        yield structure
    elif isinstance(structure, dict):
        yield from _tensors(tuple(structure.values()))
    elif isinstance(structure, list | tuple):
        for item in structure:
            yield from _tensors(item)


POLICIES: dict[str, Callable[..., Any]] = {
    "tf32": narrow_operands((*PRODUCTS, *CONVOLUTIONS), bits=10),
    "tf32-convolutions": narrow_operands(CONVOLUTIONS, bits=10),
    "hf32-convolutions": narrow_operands(CONVOLUTIONS, bits=11),
    "bf16-accumulate": narrow_sums,
    "saturating-casts": saturating_casts,
}
"""By name. Two more are no functions of a call: `ftz` is a mode of this CPU, `no-float64` a check of every call."""


class Emulation(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Every operator under the first of some policies that has something to say about it."""

    def __init__(self, names: Sequence[str]) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.policies = [POLICIES[name] for name in names if name in POLICIES]
        self.refuses_float64 = "no-float64" in names

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = self.applied(func, args, kwargs or {})
        if self.refuses_float64:
            refuse_float64(func, (args, kwargs or {}, result))
        return result

    def applied(self, func: Any, args: Any, kwargs: Any) -> Any:
        for policy in self.policies:
            result = policy(func, args, kwargs)
            if result is not NotImplemented:
                return result
        return func(*args, **kwargs)


@contextlib.contextmanager
def emulated(names: Sequence[str]) -> Iterator[None]:
    """Run under these policies; fused kernels are off, so that products and sums are seen one by one."""
    from torch.nn.attention import SDPBackend, sdpa_kernel

    if "ftz" in names and not torch.set_flush_denormal(True):
        raise NotImplementedError("this CPU cannot flush subnormal numbers: it is not supported")
    try:
        with warnings.catch_warnings(), sdpa_kernel(SDPBackend.MATH):
            warnings.filterwarnings("ignore", "TF32 acceleration")  # it speaks of Intel GPUs
            with torch.backends.mkldnn.flags(enabled=False), Emulation(names):
                yield
    finally:
        torch.set_flush_denormal(False)

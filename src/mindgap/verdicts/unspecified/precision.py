"""How finely a platform computes between operators."""

from __future__ import annotations

from typing import Any, Final

import torch

from mindgap.verdicts.runner import Call
from mindgap.verdicts.unspecified.rule import Rule

DENORMAL_FLUSH: Final = "denormal-flush"
INTERMEDIATE_PRECISION: Final = "intermediate-precision"


def _denormals(tensor: torch.Tensor) -> torch.Tensor:
    return (tensor != 0) & (tensor.abs() < torch.finfo(tensor.dtype).tiny)


def _has_denormals(call: Call) -> bool:
    return any(bool(_denormals(tensor).any()) for tensor in call.tensors() if tensor.is_floating_point())


def _flush(call: Call, result: Any, attempt: int, generator: torch.Generator) -> Any:
    """The result for arguments whose denormal numbers are zero."""

    def flushed(leaf: Any) -> Any:
        if not isinstance(leaf, torch.Tensor) or not leaf.is_floating_point():
            return leaf
        return torch.where(_denormals(leaf), torch.zeros_like(leaf), leaf)

    return call.function(*map(flushed, call.args), **call.kwargs)


def _is_narrow(call: Call) -> bool:
    narrow = (torch.float16, torch.bfloat16, torch.float32)
    return any(tensor.dtype in narrow for tensor in call.tensors())


def _wide(call: Call, result: Any, attempt: int, generator: torch.Generator) -> Any:
    """The result as a platform would have it that computes in float64 and stores it as it must."""
    args = [leaf.to(torch.float64) if isinstance(leaf, torch.Tensor) else leaf for leaf in call.args]
    return call.function(*args, **call.kwargs).to(result.dtype)


RULES: Final = (
    Rule(
        DENORMAL_FLUSH,
        _has_denormals,
        _flush,
        "denormal numbers may be taken for zero: most accelerators and some CPU runtimes do so for speed",
        "torch.set_flush_denormal",
        whole_run=True,
        attempts=1,
    ),
    Rule(
        INTERMEDIATE_PRECISION,
        _is_narrow,
        _wide,
        "a platform may keep intermediate values at higher precision, where others round or overflow",
        "torch._inductor.config.emulate_precision_casts; pytorch#183761, pytorch#145466",
        whole_run=True,
        attempts=1,
    ),
)

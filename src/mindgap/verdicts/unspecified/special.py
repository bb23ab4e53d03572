"""NaN bits, factorisations, and reductions of nothing."""

from __future__ import annotations

from typing import Any, Final

import torch

from mindgap.program.state import repeats
from mindgap.verdicts.runner import Call, tensors_in
from mindgap.verdicts.unspecified.rule import Rule

# ---- the sign and payload of NaN


def _nan_source(call: Call) -> torch.Tensor | None:
    """The argument whose bits, not whose value, the operator reads."""
    source = call.argument(1, "other") if call.name == "copysign" else call.args[0]
    return source if isinstance(source, torch.Tensor) and source.is_floating_point() else None


def _nan_matches(call: Call) -> bool:
    source = _nan_source(call)
    return source is not None and bool(source.isnan().any())


def _nan_scramble(call: Call, result: Any, attempt: int, generator: torch.Generator) -> Any:
    source = _nan_source(call)
    if source is None:
        return result
    where = source.isnan()
    if call.name == "view":
        payload = torch.full_like(source, float("nan"))
        payload = -payload if attempt % 2 == 0 else payload
        return call.function(torch.where(where, payload, source), *call.args[1:])
    other = ~result if call.name == "signbit" else -result
    return result.copy_(torch.where(where.expand(result.shape), other, result))


# ---- vectors that are defined up to a sign


def always(call: Call) -> bool:
    return True


def _flip_vectors(call: Call, result: Any, attempt: int, generator: torch.Generator) -> Any:
    """Turn singular or eigenvectors round, both sides of a pair together."""
    parts = list(result)

    def signs(count: int) -> torch.Tensor:
        if attempt == 0:
            return -torch.ones(count)
        return torch.randint(0, 2, (count,), generator=generator) * 2.0 - 1

    if call.name in ("linalg_svd", "_linalg_svd", "svd"):
        left, values, right = parts[0], parts[1], parts[2]
        chosen = signs(values.shape[-1]).to(values.dtype)
        if left.numel():
            left[..., : len(chosen)] *= chosen
        if right.numel() and call.name == "svd":
            right[..., : len(chosen)] *= chosen
        elif right.numel():
            right[..., : len(chosen), :] *= chosen.unsqueeze(-1)
    elif call.name in ("linalg_qr", "qr"):
        left, right = parts
        chosen = signs(right.shape[-2]).to(right.real.dtype)
        if left.numel():
            left[..., : len(chosen)] *= chosen[: left.shape[-1]]
        right *= chosen.unsqueeze(-1)
    else:
        vectors = parts[1]
        if vectors.numel():
            vectors *= signs(vectors.shape[-1]).to(vectors.real.dtype)
        if call.name == "linalg_eig" and attempt:
            order = torch.randperm(parts[0].shape[-1], generator=generator)
            parts = [parts[0][..., order], vectors[..., order]]
    return type(result)(parts) if isinstance(result, torch.Size | list) else tuple(parts)


def _shuffle_values(call: Call, result: Any, attempt: int, generator: torch.Generator) -> Any:
    return result[..., torch.randperm(result.shape[-1], generator=generator)]


# ---- reductions of nothing


def _empty_matches(call: Call) -> bool:
    source = call.args[0]
    return isinstance(source, torch.Tensor) and source.numel() == 0


def taint_all(call: Call, result: Any, attempt: int, generator: torch.Generator) -> Any:
    """Anything at all: NaN first, then random numbers."""
    for tensor in tensors_in(result):
        if tensor.numel():
            taint(tensor, attempt, generator)
    return result


def taint(tensor: torch.Tensor, attempt: int, generator: torch.Generator) -> None:
    """Overwrite a tensor with values that nobody expects."""
    if repeats(tensor):
        return
    if tensor.dtype is torch.bool:
        tensor.logical_not_()
    elif tensor.is_floating_point() or tensor.is_complex():
        if attempt == 0:
            tensor.fill_(float("nan"))
        else:
            noise = torch.randn(tensor.shape, generator=generator, dtype=torch.float64)
            tensor.copy_(noise * 10.0**attempt)
    else:
        tensor.copy_(torch.randint(0, 100, tensor.shape, generator=generator))


RULES: Final = (
    Rule(
        "nan-bits",
        _nan_matches,
        _nan_scramble,
        "the sign and payload of a NaN carry no meaning; processors and compilers choose them freely",
        "IEEE 754-2019 section 6.3; pytorch#189808",
    ),
    Rule(
        "vector-sign",
        always,
        _flip_vectors,
        "singular vectors, eigenvectors and QR factors are defined up to a sign or phase, eigenvalues up to order",
        "torch.linalg.eigh, torch.linalg.svd, torch.linalg.eig: 'not unique' warnings",
    ),
    Rule(
        "eigenvalue-order",
        always,
        _shuffle_values,
        "the eigenvalues of a general matrix come in no particular order",
        "torch.linalg.eigvals: 'The eigenvalues are not guaranteed to be in any specific order'",
    ),
    Rule(
        "empty-reduction",
        _empty_matches,
        taint_all,
        "the median, mode or quantile of nothing is not defined, and eager leaves the margin loss of nothing unwritten",
        "torch.median; pytorch#39750",
        unsteady=True,
    ),
)

"""Numbers: integers, complex numbers, quantised weights, products, a function with a gradient of its own."""

from __future__ import annotations

import numpy as np
import torch
from torch import nn

from tests.users.example import EXAMPLES, RIGHT, Example, Found, f64, seeded, sigmoid, weights


class Hashed(nn.Module):
    """Buckets of identifiers: 64 bits are needed on the way."""

    def forward(self, ids):
        return (ids * 2654435761 + 12345) % 1000, torch.div(ids, 7, rounding_mode="floor")


def hashed_truth(model, ids):
    ids = [int(number) for number in ids]
    return {"[0]": [(number * 2654435761 + 12345) % 1000 for number in ids], "[1]": [number // 7 for number in ids]}


EXAMPLES["hashed identifiers"] = Example(
    lambda: (Hashed(), [torch.tensor([3, -5, 10**6, -(10**6), 40])]),
    {
        "inductor": RIGHT,
        "onnxruntime": RIGHT,
        "openvino": Found(
            "diverges",
            "it computes int64 in 32 bits, and rounds a quotient towards zero",
            "integer",
            wrong=("[0]", "[1]"),
        ),
    },
    hashed_truth,
)


class SpectralFilter(nn.Module):
    """Complex weights on the spectrum of a signal."""

    def __init__(self) -> None:
        super().__init__()
        self.response = nn.Parameter(torch.randn(9, dtype=torch.complex64))

    def forward(self, signal):
        spectrum = torch.fft.rfft(signal) * self.response
        return {"signal": torch.fft.irfft(spectrum, n=16), "magnitude": spectrum.abs()}


def filter_truth(model, signal):
    spectrum = np.fft.rfft(f64(signal)) * model.response.detach().numpy().astype(np.complex128)
    return {"signal": np.fft.irfft(spectrum, n=16), "magnitude": np.abs(spectrum)}


EXAMPLES["complex spectrum"] = Example(
    lambda: (seeded(SpectralFilter).eval(), [torch.randn(3, 16, generator=torch.Generator().manual_seed(1))]),
    {
        "eager@scalar": RIGHT,
        "onnxruntime": RIGHT,
        "openvino": Found("failed", "no rule for _fft_r2c", says="No conversion rule"),
    },
    filter_truth,
)


class QuantisedLinear(nn.Module):
    """Weights in int8, sums in int32."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("weight", torch.randint(-128, 128, (8, 16), dtype=torch.int8))

    def forward(self, x):
        quantised = (x / 0.05).round().clamp(-128, 127).to(torch.int8)
        sums = quantised.to(torch.int32) @ self.weight.to(torch.int32).t()
        return sums.to(torch.float32) * (0.05 * 0.02)


def quantised_truth(model, x):
    quantised = np.clip(np.round(x.numpy() / np.float32(0.05)), -128, 127).astype(
        np.int64
    )  # in float32, as it is given
    return {"output": (quantised @ model.weight.numpy().astype(np.int64).T) * 0.001}


EXAMPLES["quantised linear layer"] = Example(
    lambda: (seeded(QuantisedLinear), [3 * torch.randn(4, 16, generator=torch.Generator().manual_seed(1))]),
    {"inductor": RIGHT, "onnxruntime": RIGHT, "openvino": RIGHT},
    quantised_truth,
)


class Bilinear(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.core = nn.Parameter(torch.randn(4, 5, 6))

    def forward(self, x):
        other = torch.einsum("bi,ijk->bk", x, self.core)
        return torch.einsum("bi,ijk,bk->bj", x, self.core, other)


def bilinear_truth(model, x):
    core, x = weights(model)["core"], f64(x)
    return {"output": np.einsum("bi,ijk,bk->bj", x, core, np.einsum("bi,ijk->bk", x, core))}


EXAMPLES["einsum"] = Example(
    lambda: (seeded(Bilinear), [torch.randn(3, 4, generator=torch.Generator().manual_seed(1))]),
    {"onnxruntime": RIGHT, "openvino": RIGHT},
    bilinear_truth,
)


class Swish(torch.autograd.Function):
    """A function with a gradient of its own."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * torch.sigmoid(x)

    @staticmethod
    def backward(ctx, gradient):
        (x,) = ctx.saved_tensors
        s = torch.sigmoid(x)
        return gradient * s * (1 + x * (1 - s))


class SwishLayer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(8, 8)

    def forward(self, x):
        return Swish.apply(self.linear(x))


def swish_truth(model, x):
    w = weights(model)
    h = f64(x) @ w["linear.weight"].T + w["linear.bias"]
    return {"output": h * sigmoid(h)}


EXAMPLES["function with its own gradient"] = Example(
    lambda: (seeded(SwishLayer).eval(), [torch.randn(4, 8, generator=torch.Generator().manual_seed(1))]),
    {"inductor": RIGHT, "onnxruntime": RIGHT, "openvino": RIGHT},
    swish_truth,
)

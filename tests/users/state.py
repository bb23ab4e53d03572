"""Models that remember: caches, statistics, buffers that a call changes."""

from __future__ import annotations

import numpy as np
import torch
from torch import nn

from tests.users.example import EXAMPLES, RIGHT, Example, Found, f64, seeded, softmax, weights


class KeyValueCache(nn.Module):
    """One step of attention over a cache that it writes to."""

    def __init__(self) -> None:
        super().__init__()
        self.q, self.k, self.v = nn.Linear(8, 8), nn.Linear(8, 8), nn.Linear(8, 8)
        self.register_buffer("keys", torch.zeros(1, 6, 8))
        self.register_buffer("values", torch.zeros(1, 6, 8), persistent=False)
        self.register_buffer("position", torch.tensor(2))

    def forward(self, x):
        at = self.position.reshape(1)
        self.keys.index_copy_(1, at, self.k(x))
        self.values.index_copy_(1, at, self.v(x))
        self.position.add_(1)
        scores = self.q(x) @ self.keys.transpose(1, 2) / 8**0.5
        return scores.softmax(-1) @ self.values


def cache_truth(model, x):
    w, x = weights(model), f64(x)
    q, k, v = (x @ w[f"{n}.weight"].T + w[f"{n}.bias"] for n in "qkv")
    keys, values = np.zeros((1, 6, 8)), np.zeros((1, 6, 8))
    keys[:, 2:3], values[:, 2:3] = k, v
    scores = softmax(q @ keys.transpose(0, 2, 1) / 8**0.5)
    return {"output": scores @ values, "buffer:keys": keys, "buffer:values": values, "buffer:position": 3}


EXAMPLES["key-value cache"] = Example(
    lambda: (seeded(KeyValueCache).eval(), [torch.randn(1, 1, 8, generator=torch.Generator().manual_seed(1))]),
    {"inductor": RIGHT, "onnxruntime": RIGHT, "openvino": RIGHT},
    cache_truth,
)


class TrainingNet(nn.Module):
    """As people export it when they forget `eval()`."""

    def __init__(self, dropout: float = 0.0) -> None:
        super().__init__()
        self.linear, self.norm, self.dropout = nn.Linear(6, 6), nn.BatchNorm1d(6), nn.Dropout(dropout)

    def forward(self, x):
        return self.dropout(self.norm(self.linear(x)))


def training_truth(model, x):
    w, x = weights(model), f64(x)
    h = x @ w["linear.weight"].T + w["linear.bias"]
    mean, count = h.mean(0), len(h)
    found = {
        "buffer:norm.running_mean": 0.1 * mean,
        "buffer:norm.running_var": 0.9 + 0.1 * h.var(0) * count / (count - 1),
        "buffer:norm.num_batches_tracked": 1,
    }
    if not model.dropout.p:
        found["output"] = (h - mean) / np.sqrt(h.var(0) + 1e-5)
    return found


def batch():
    return 3 * torch.randn(8, 6, generator=torch.Generator().manual_seed(1)) + 1


STATISTICS = ("buffer:norm.running_mean", "buffer:norm.running_var")

EXAMPLES["batch norm in training"] = Example(
    lambda: (seeded(TrainingNet).train(), [batch()]),
    {
        "inductor": RIGHT,
        "onnxruntime": Found(
            "diverges",
            "it is exported with training_mode=0, which uses the running statistics and leaves them alone",
            "value",
            wrong=("output", *STATISTICS),
        ),
        "openvino": Found(
            "unjudged",
            "it normalises by the batch, but cannot return the statistics",
            says="does not return buffer:norm.",
        ),
    },
    training_truth,
)
EXAMPLES["batch norm and dropout in training"] = Example(
    lambda: (seeded(lambda: TrainingNet(0.3)).train(), [batch()]),
    {
        "inductor": Found("hazard", "other random numbers, everything else is right", says="replayed: within rounding"),
        "onnxruntime": Found("diverges", "as without dropout: chance excuses nothing", "value", wrong=STATISTICS),
        "openvino": Found(
            "diverges", "the first row of the batch: its frontend takes item 0 of what dropout returns", "shape",
            says="float32[6] where eager gives float32[8, 6]",
        ),
    },
    training_truth,
)  # fmt: skip


class RunningNormaliser(nn.Module):
    """Observations scaled by the mean and variance of all that it has seen, as in reinforcement learning."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("mean", torch.zeros(3))
        self.register_buffer("var", torch.ones(3))
        self.register_buffer("count", torch.tensor(4.0))

    def forward(self, x):
        mean, var, count = x.mean(0), x.var(0, unbiased=False), x.shape[0]
        apart, total = mean - self.mean, self.count + count
        spread = self.var * self.count + var * count + apart**2 * self.count * count / total
        self.mean += apart * count / total
        self.var.copy_(spread / total)
        self.count += count
        return ((x - self.mean) / (self.var + 1e-8).sqrt()).clamp(-10, 10)


def normaliser_truth(model, x):
    x = f64(x)
    total = 4 + len(x)
    mean = x.sum(0) / total  # the four that came before had mean 0 and variance 1
    var = (4 + (x**2).sum(0)) / total - mean**2
    scaled = np.clip((x - mean) / np.sqrt(var + 1e-8), -10, 10)
    return {"output": scaled, "buffer:mean": mean, "buffer:var": var, "buffer:count": total}


EXAMPLES["running normaliser"] = Example(
    lambda: (RunningNormaliser(), [batch()[:, :3].contiguous()]),
    {"inductor": RIGHT, "onnxruntime": RIGHT, "openvino": RIGHT},
    normaliser_truth,
)


class Window(nn.Module):
    """Shifts a window of samples in place; the caller's own tensor changes."""

    def forward(self, window, sample):
        window[:, :-1] = window[:, 1:].clone()
        window[:, -1] = sample
        return window.mean(1)


def window_truth(model, window, sample):
    window, sample = f64(window), f64(sample)
    moved = np.concatenate([window[:, 1:], sample[:, None]], 1)
    return {"output": moved.mean(1), "input:window": moved}


EXAMPLES["window of samples, in place"] = Example(
    lambda: (Window(), [torch.arange(12.0).reshape(2, 6), torch.tensor([50.0, 60.0])]),
    {"inductor": RIGHT, "onnxruntime": RIGHT, "openvino": RIGHT},
    window_truth,
)


class OverlappingWindow(nn.Module):
    """The same, without the copy that makes it safe."""

    def forward(self, window):
        window = window * 1.0
        window[:, 1:].copy_(window[:, :-1])
        return window


UNSAFE = Found("hazard", "copy_ reads what it has already written: its result depends on the order", says="overlapping")

EXAMPLES["window of samples, overlapping"] = Example(
    lambda: (OverlappingWindow(), [torch.arange(64.0).reshape(2, 32)]),
    {"inductor": UNSAFE, "onnxruntime": UNSAFE, "openvino": UNSAFE},
)

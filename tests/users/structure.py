"""Graphs, branches, images and views: models whose shape or order of work is the point."""

from __future__ import annotations

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

from tests.users.example import EXAMPLES, RIGHT, Example, Found, f64, seeded, weights


class GraphNet(nn.Module):
    """Means over the neighbours of a node, twice."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(6, 8), nn.Linear(8, 3)

    def forward(self, x, edges):
        source, target = edges
        degree = torch.zeros(x.shape[0]).scatter_add_(0, target, torch.ones(target.shape[0])).clamp(min=1)
        h = torch.zeros(x.shape[0], 8).index_add_(0, target, self.first(x)[source]) / degree[:, None]
        return torch.zeros(x.shape[0], 3).index_add_(0, target, self.second(h.relu())[source]) / degree[:, None]


def graph_truth(model, x, edges):
    w, x, (source, target) = weights(model), f64(x), f64(edges)
    adjacency = np.zeros((len(x), len(x)))
    np.add.at(adjacency, (target, source), 1)
    adjacency /= np.maximum(adjacency.sum(1, keepdims=True), 1)
    h = np.maximum(adjacency @ (x @ w["first.weight"].T + w["first.bias"]), 0)
    return {"output": adjacency @ (h @ w["second.weight"].T + w["second.bias"])}


EXAMPLES["graph network"] = Example(
    lambda: (
        seeded(GraphNet).eval(),
        [
            torch.randn(7, 6, generator=torch.Generator().manual_seed(1)),
            torch.randint(0, 6, (2, 20), generator=torch.Generator().manual_seed(2)),
        ],
    ),
    {
        "eager@scalar": RIGHT,
        "onnxruntime": RIGHT,
        "openvino": Found("failed", "its index_add wants five arguments", says="index_add"),
    },
    graph_truth,
)


class Branches(nn.Module):
    """Chooses a path by the data, and loops until it is small enough."""

    def __init__(self) -> None:
        super().__init__()
        self.positive, self.negative = nn.Linear(8, 8), nn.Linear(8, 8)

    def forward(self, x):
        x = self.positive(x) if x.mean() > 0 else self.negative(x)
        halvings = 0
        while x.norm() > 1:
            x, halvings = x / 2, halvings + 1
        return x, halvings


def branches_truth(model, x):
    w, x = weights(model), f64(x)
    path = "positive" if x.mean() > 0 else "negative"
    x, halvings = x @ w[f"{path}.weight"].T + w[f"{path}.bias"], 0
    while np.linalg.norm(x) > 1:
        x, halvings = x / 2, halvings + 1
    return {"[0]": x, "[1]": halvings}


EXAMPLES["data-dependent control flow"] = Example(
    lambda: (seeded(Branches).eval(), [4 * torch.randn(4, 8, generator=torch.Generator().manual_seed(1))]),
    {
        "aot_eager": RIGHT,
        "onnxruntime": Found("failed", "torch.export cannot follow it", says="export"),
    },
    branches_truth,
)


class Warp(nn.Module):
    """Rotates an image and reads beyond its edge; then makes it smaller."""

    def forward(self, image, matrix):
        grid = F.affine_grid(matrix, image.shape, align_corners=False)
        warped = F.grid_sample(image, grid, padding_mode="zeros", align_corners=False)
        return warped, F.interpolate(warped, size=(3, 5), mode="nearest")


def warp_truth(model, image, matrix):
    image, matrix = f64(image)[0], f64(matrix)[0]
    height, width = image.shape[1:]
    warped = np.zeros(image.shape)
    for row in range(height):
        for column in range(width):
            point = np.array([(2 * column + 1) / width - 1, (2 * row + 1) / height - 1, 1])
            x, y = matrix @ point
            x, y = ((x + 1) * width - 1) / 2, ((y + 1) * height - 1) / 2
            for i in (int(np.floor(y)), int(np.floor(y)) + 1):
                for j in (int(np.floor(x)), int(np.floor(x)) + 1):
                    if 0 <= i < height and 0 <= j < width:
                        warped[:, row, column] += (1 - abs(y - i)) * (1 - abs(x - j)) * image[:, i, j]
    rows, columns = np.arange(3) * height // 3, np.arange(5) * width // 5
    return {"[0]": warped[None], "[1]": warped[None][:, :, rows][..., columns]}


EXAMPLES["grid_sample and interpolate"] = Example(
    lambda: (
        Warp(),
        [
            torch.randn(1, 2, 6, 6, generator=torch.Generator().manual_seed(1)),
            torch.tensor([[[1.3, 0.4, 0.1], [-0.5, 1.1, 0.3]]]),
        ],
    ),
    {"eager@scalar": RIGHT, "onnxruntime": RIGHT, "openvino": RIGHT},
    warp_truth,
)


class Views(nn.Module):
    """Writes through views of views."""

    def forward(self, x):
        y = x.clone()
        y[:, ::2] *= 2
        flat = y.view(-1)[3:9]
        flat.sub_(1)
        y.t()[0] += 5
        return y, flat


def views_truth(model, x):
    y = f64(x).copy()
    y[:, ::2] *= 2
    flat = y.reshape(-1)[3:9]
    flat -= 1
    y.T[0] += 5
    return {"[0]": y, "[1]": flat}


EXAMPLES["writing through views"] = Example(
    lambda: (Views(), [torch.arange(24.0).reshape(4, 6)]),
    {"inductor": RIGHT, "onnxruntime": RIGHT, "openvino": RIGHT},
    views_truth,
)


class Sampler(nn.Module):
    """An encoder whose sample is random and whose statistics are not."""

    def __init__(self) -> None:
        super().__init__()
        self.encoder = nn.Linear(8, 8)

    def forward(self, x):
        mean, log_variance = self.encoder(x).chunk(2, -1)
        choice = torch.multinomial(mean.softmax(-1), 2, replacement=True)
        return {"mean": mean, "sample": mean + torch.randn_like(mean) * (log_variance / 2).exp(), "choice": choice}


def sampler_truth(model, x):
    w = weights(model)
    return {"mean": (f64(x) @ w["encoder.weight"].T + w["encoder.bias"])[:, :4]}


EXAMPLES["random sample"] = Example(
    lambda: (seeded(Sampler).eval(), [torch.randn(32, 8, generator=torch.Generator().manual_seed(1))]),
    {
        "onnxruntime": Found(
            "hazard", "other random numbers; what is not random is right", says="replayed: within rounding"
        ),
        "openvino": Found("failed", "no rule for multinomial", says="No conversion rule"),
    },
    sampler_truth,
)

"""What models return besides tensors: dataclasses, ModelOutputs, dicts, indices, objects."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import nn

from tests.users.example import EXAMPLES, RIGHT, Example, Found, f64, seeded, weights


class Task(enum.Enum):
    CLASSIFY = 1


class Scores(NamedTuple):
    logits: torch.Tensor
    temperature: float


@dataclass
class Prediction:
    scores: Scores
    hidden: dict[str, list[torch.Tensor]]
    task: Task
    step: Any = None


class Heads(nn.Module):
    """Returns a dataclass that holds a named tuple, a dict of lists, an enum and nothing."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(6, 8), nn.Linear(8, 3)

    def forward(self, x):
        hidden = self.first(x).tanh()
        return Prediction(Scores(self.second(hidden) / 0.5, 0.5), {"layers": [x, hidden]}, Task.CLASSIFY)


def heads_truth(model, x):
    w, x = weights(model), f64(x)
    hidden = np.tanh(x @ w["first.weight"].T + w["first.bias"])
    logits = 2 * (hidden @ w["second.weight"].T + w["second.bias"])
    return {"scores.logits": logits, "scores.temperature": 0.5, "hidden.layers[0]": x, "hidden.layers[1]": hidden}


EXAMPLES["dataclass"] = Example(
    lambda: (seeded(Heads).eval(), [torch.randn(4, 6, generator=torch.Generator().manual_seed(1))]),
    {"inductor": RIGHT, "onnxruntime": RIGHT, "openvino": RIGHT},
    heads_truth,
)


class Classifier(nn.Module):
    """Returns what models of transformers return: a dict with attributes, without what is None."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding, self.head = nn.Embedding(50, 8), nn.Linear(8, 2)

    def forward(self, input_ids):
        from transformers.modeling_outputs import SequenceClassifierOutput

        hidden = self.embedding(input_ids)
        return SequenceClassifierOutput(logits=self.head(hidden.mean(1)), hidden_states=(hidden,))


def classifier_truth(model, input_ids):
    w = weights(model)
    hidden = w["embedding.weight"][f64(input_ids)]
    return {"logits": hidden.mean(1) @ w["head.weight"].T + w["head.bias"], "hidden_states[0]": hidden}


EXAMPLES["ModelOutput of transformers"] = Example(
    lambda: (seeded(Classifier).eval(), [torch.arange(10).reshape(2, 5)]),
    {"aot_eager": RIGHT, "onnxruntime": RIGHT, "openvino": RIGHT},
    classifier_truth,
)


class TopScores(nn.Module):
    """Ties in the scores: whose index comes first is not promised."""

    def forward(self, scores):
        values, indices = scores.topk(3, -1)
        return {"values": values, "indices": indices, "best": scores.argmax(-1)}


EXAMPLES["topk with ties"] = Example(
    lambda: (TopScores(), [torch.tensor([[1.0, 3.0, 3.0, 2.0, 0.0], [5.0, 5.0, 5.0, 5.0, 1.0]])]),
    {
        "onnxruntime": Found("hazard", "the first of equal values, where eager takes others", says="tie-order"),
        "openvino": Found("hazard", "the same", says="tie-order"),
    },
    lambda model, scores: {"values": -np.sort(-f64(scores), -1)[:, :3]},
)


class WithSampler(nn.Module):
    """Returns a function: nothing can be compared there."""

    def forward(self, x):
        return {"mean": x.mean(-1), "sample": lambda: x + torch.randn_like(x)}


EXAMPLES["a function among the outputs"] = Example(
    lambda: (WithSampler(), [torch.ones(2, 3)]),
    {
        "inductor": Found("unjudged", "the mean is right, the function is not looked at", says="sample (function)"),
        "onnxruntime": Found("failed", "torch.export refuses it", says="export"),
    },
    lambda model, x: {"mean": f64(x).mean(-1)},
)


class Broken(nn.Module):
    """A bug of the user's own."""

    def forward(self, x):
        return {"logits": x * 2, "loss": x.sum() + "0.1"}


EXAMPLES["a TypeError of the user's own"] = Example(
    lambda: (Broken(), [torch.ones(2, 3)]),
    {
        "eager@scalar": Found("failed", "nobody can run it", says="unsupported operand"),
        "onnxruntime": Found("failed", "nobody can run it", says="unsupported operand"),
    },
    eager_fails=" in forward: TypeError: unsupported operand type(s) for +: 'Tensor' and 'str'",
)


class IntegerSoftmax(nn.Module):
    """Forgot to convert: eager has no such kernel."""

    def forward(self, counts):
        return counts.softmax(-1)


EXAMPLES["softmax of integers"] = Example(
    lambda: (IntegerSoftmax(), [torch.arange(8).reshape(2, 4)]),
    {
        "openvino": Found("hazard", "it computes something where eager refuses", "validation", says="has no kernel"),
        "eager@scalar": Found("failed", "the same eager", says="not implemented for 'Long'"),
    },
    eager_fails="NotImplementedError: \"softmax_lastdim_kernel_impl\" not implemented for 'Long'",
)

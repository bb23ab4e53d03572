"""Sequences: recurrent nets, decoding, embeddings, attention with masks, losses."""

from __future__ import annotations

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

from tests.users.example import EXAMPLES, RIGHT, Example, Found, f64, seeded, sigmoid, softmax, weights

NOT_COMPILED = Found("failed", "TorchDynamo leaves recurrent layers to eager: nothing is compiled", says="not compiled")


class Translator(nn.Module):
    """Encodes with a GRU and decodes greedily, token by token."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding, self.encoder = nn.Embedding(20, 8), nn.GRU(8, 8, batch_first=True)
        self.decoder, self.out = nn.GRUCell(8, 8), nn.Linear(8, 20)

    def forward(self, source):
        _, hidden = self.encoder(self.embedding(source))
        hidden, token, tokens = hidden[0], source[:, 0] * 0, []
        for _ in range(4):
            hidden = self.decoder(self.embedding(token), hidden)
            token = self.out(hidden).argmax(-1)
            tokens.append(token)
        return torch.stack(tokens, 1), hidden


def gru_step(x, h, w_ih, w_hh, b_ih, b_hh):
    gi, gh = np.split(x @ w_ih.T + b_ih, 3, -1), np.split(h @ w_hh.T + b_hh, 3, -1)
    reset, update = sigmoid(gi[0] + gh[0]), sigmoid(gi[1] + gh[1])
    return (1 - update) * np.tanh(gi[2] + reset * gh[2]) + update * h


def translator_truth(model, source):
    w, source = weights(model), f64(source)
    parts = ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
    encoder, decoder = [w[f"encoder.{p}_l0"] for p in parts], [w[f"decoder.{p}"] for p in parts]
    hidden = np.zeros((len(source), 8))
    for step in range(source.shape[1]):
        hidden = gru_step(w["embedding.weight"][source[:, step]], hidden, *encoder)
    token, tokens = source[:, 0] * 0, []
    for _ in range(4):
        hidden = gru_step(w["embedding.weight"][token], hidden, *decoder)
        token = (hidden @ w["out.weight"].T + w["out.bias"]).argmax(-1)
        tokens.append(token)
    return {"[0]": np.stack(tokens, 1), "[1]": hidden}


EXAMPLES["sequence to sequence"] = Example(
    lambda: (
        seeded(Translator).eval(),
        [torch.randint(0, 20, (2, 6), generator=torch.Generator().manual_seed(1))],
    ),
    {"inductor": NOT_COMPILED, "onnxruntime": RIGHT, "openvino": RIGHT},
    translator_truth,
)


class Tagger(nn.Module):
    """A bidirectional LSTM; its states are returned."""

    def __init__(self) -> None:
        super().__init__()
        self.lstm = nn.LSTM(6, 4, batch_first=True, bidirectional=True)

    def forward(self, x):
        out, (hidden, cell) = self.lstm(x)
        return {"out": out, "hidden": hidden, "cell": cell}


def tagger_truth(model, x):
    w, x = weights(model), f64(x)
    outs, hiddens, cells = [], [], []
    for suffix, steps in (("", range(x.shape[1])), ("_reverse", reversed(range(x.shape[1])))):
        h, c = np.zeros((len(x), 4)), np.zeros((len(x), 4))
        found = np.zeros((*x.shape[:2], 4))
        for step in steps:
            gates = x[:, step] @ w[f"lstm.weight_ih_l0{suffix}"].T + w[f"lstm.bias_ih_l0{suffix}"]
            gates = gates + h @ w[f"lstm.weight_hh_l0{suffix}"].T + w[f"lstm.bias_hh_l0{suffix}"]
            i, f, g, o = np.split(gates, 4, -1)
            c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
            h = sigmoid(o) * np.tanh(c)
            found[:, step] = h
        outs.append(found), hiddens.append(h), cells.append(c)
    return {"out": np.concatenate(outs, -1), "hidden": np.stack(hiddens), "cell": np.stack(cells)}


EXAMPLES["bidirectional LSTM"] = Example(
    lambda: (seeded(Tagger).eval(), [torch.randn(2, 5, 6, generator=torch.Generator().manual_seed(1))]),
    {"onnxruntime": RIGHT, "openvino": RIGHT},
    tagger_truth,
)


class Bags(nn.Module):
    """Means of words; padding is not a word."""

    def __init__(self) -> None:
        super().__init__()
        self.words = nn.EmbeddingBag(30, 8, mode="mean", padding_idx=0)

    def forward(self, ids, offsets):
        return self.words(ids, offsets)


def bags_truth(model, ids, offsets):
    table, ids, offsets = weights(model)["words.weight"], f64(ids), f64(offsets)
    bags = np.split(ids, offsets[1:])
    return {"output": np.stack([table[bag[bag != 0]].mean(0) if (bag != 0).any() else np.zeros(8) for bag in bags])}


EXAMPLES["embedding bag with padding"] = Example(
    lambda: (seeded(Bags).eval(), [torch.tensor([3, 0, 5, 7, 7, 0, 0, 2]), torch.tensor([0, 3, 5, 5])]),
    {
        "onnxruntime": RIGHT,
        "openvino": Found(
            "diverges", "padding counts: the mean of (0, 0, 2) is a third of word 2", "value", wrong=("output",)
        ),
    },
    bags_truth,
)


class MaskedAttention(nn.Module):
    """One query may look at nothing at all."""

    def forward(self, q, k, v, mask):
        by_hand = (q @ k.transpose(-1, -2) / 8**0.5).masked_fill(~mask, float("-inf")).softmax(-1) @ v
        return {"fused": F.scaled_dot_product_attention(q, k, v, attn_mask=mask), "by_hand": by_hand}


def attention_truth(model, q, k, v, mask):
    q, k, v, mask = map(f64, (q, k, v, mask))
    by_hand = softmax(np.where(mask, q @ k.swapaxes(-1, -2) / 8**0.5, -np.inf)) @ v  # 0/0 where all is masked
    return {"by_hand": by_hand, "fused": np.nan_to_num(by_hand)}  # torch documents zeros there since 2.5


def attention():
    mask = torch.ones(4, 4, dtype=torch.bool).tril()
    mask[2] = False
    generator = torch.Generator().manual_seed(1)
    return MaskedAttention(), [*(torch.randn(1, 2, 4, 8, generator=generator) for _ in range(3)), mask]


EXAMPLES["attention with a masked row"] = Example(
    attention,
    {
        "inductor": RIGHT,
        "onnxruntime": Found(
            "diverges", "the mask becomes a large negative number: a masked row is the mean of all values", "value",
            wrong=("fused",),
        ),
        "openvino": Found("diverges", "NaN where torch gives zeros", "nonfinite", wrong=("fused",)),
    },
    attention_truth,
)  # fmt: skip


class SmoothedLoss(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(8, 5)

    def forward(self, x, labels):
        return F.cross_entropy(self.linear(x), labels, label_smoothing=0.1)


def loss_truth(model, x, labels):
    w, x, labels = weights(model), f64(x), f64(labels)
    logs = np.log(softmax(x @ w["linear.weight"].T + w["linear.bias"]))
    targets = np.full(logs.shape, 0.1 / 5)
    targets[np.arange(len(labels)), labels] += 0.9
    return {"output": -(targets * logs).sum(-1).mean()}


EXAMPLES["loss with label smoothing"] = Example(
    lambda: (
        seeded(SmoothedLoss).eval(),
        [torch.randn(6, 8, generator=torch.Generator().manual_seed(1)), torch.tensor([0, 4, 2, 2, 1, 3])],
    ),
    {
        "onnxruntime": Found("diverges", "the exporter drops label_smoothing", "value", wrong=("output",)),
        "openvino": RIGHT,
    },
    loss_truth,
)


class HalfEncoder(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.TransformerEncoderLayer(16, 4, 32, batch_first=True)

    def forward(self, x, padding):
        return self.layer(x, src_key_padding_mask=padding)


EXAMPLES["encoder in bfloat16"] = Example(
    lambda: (
        seeded(HalfEncoder).eval(),
        [
            torch.randn(2, 5, 16, generator=torch.Generator().manual_seed(1)),
            torch.tensor([[False] * 5, [False] * 3 + [True] * 2]),
        ],
    ),
    {
        "onnxruntime": Found("failed", "its CPU provider has no Where for bfloat16", says="NOT_IMPLEMENTED"),
        "openvino": RIGHT,
    },
    options={"dtype": "bfloat16"},
)

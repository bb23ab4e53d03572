"""Small models of domains whose packages are large: the textbook form of each, in plain torch.

`scripts/make_smoke.py` turns them into programs of the smoke corpus; each function returns a model and its inputs.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from mindgap.corpus.inputs import floats, integers
from mindgap.corpus.weights import enliven

Made = tuple[nn.Module, tuple[Tensor, ...]]
NODES, EDGES, WIDTH = 12, 40, 32


def _alive(model: nn.Module, *inputs: Tensor) -> Made:
    enliven(model, 0)
    return model.eval(), inputs


class GraphConvolution(nn.Module):
    """Mean of the neighbours, then a linear layer (Kipf and Welling, 2017)."""

    def __init__(self, inner: int, outer: int) -> None:
        super().__init__()
        self.linear = nn.Linear(inner, outer)

    def forward(self, x: Tensor, edges: Tensor) -> Tensor:
        degree = x.new_ones(x.shape[0]).index_add(0, edges[1], x.new_ones(edges.shape[1]))
        summed = x.index_add(0, edges[1], x[edges[0]])
        return self.linear(summed * degree.rsqrt()[:, None])


class GraphClassifier(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = GraphConvolution(16, WIDTH), GraphConvolution(WIDTH, WIDTH)
        self.head = nn.Linear(WIDTH, 4)

    def forward(self, x: Tensor, edges: Tensor) -> Tensor:
        hidden = F.relu(self.first(x, edges))
        hidden = F.elu(self.second(hidden, edges))
        return self.head(torch.cat([hidden.mean(0), hidden.amax(0)]).view(2, WIDTH))


class GraphAttention(nn.Module):
    """Attention over edges with a softmax for each receiving node (Velickovic et al., 2018)."""

    def __init__(self) -> None:
        super().__init__()
        self.project = nn.Linear(16, WIDTH, bias=False)
        self.source, self.target = nn.Linear(WIDTH, 1), nn.Linear(WIDTH, 1)

    def forward(self, x: Tensor, edges: Tensor) -> Tensor:
        hidden = self.project(x)
        score = F.leaky_relu(self.source(hidden)[edges[0]] + self.target(hidden)[edges[1]], 0.2).squeeze(-1)
        highest = score.new_full((x.shape[0],), -1e9).scatter_reduce(0, edges[1], score, "amax")
        weight = torch.exp(score - highest[edges[1]])
        total = weight.new_zeros(x.shape[0]).scatter_add(0, edges[1], weight)
        message = hidden[edges[0]] * (weight / (total[edges[1]] + 1e-6))[:, None]
        return torch.zeros_like(hidden).index_add_(0, edges[1], message) + hidden


def graph_gcn() -> Made:
    return _alive(GraphClassifier(), floats(0, "x", (NODES, 16)), integers(0, "edges", (2, EDGES), 0, NODES))


def graph_gat() -> Made:
    return _alive(GraphAttention(), floats(0, "x", (NODES, 16)), integers(0, "edges", (2, EDGES), 0, NODES))


class TabularResNet(nn.Module):
    """Numbers and categories through residual blocks (Gorishniy et al., 2021)."""

    def __init__(self) -> None:
        super().__init__()
        self.tables = nn.ModuleList(nn.Embedding(size, 8) for size in (5, 11, 3))
        self.enter = nn.Linear(10 + 24, WIDTH)
        self.blocks = nn.ModuleList(
            nn.Sequential(nn.BatchNorm1d(WIDTH), nn.Linear(WIDTH, 64), nn.ReLU(), nn.Dropout(), nn.Linear(64, WIDTH))
            for _ in range(2)
        )
        self.head = nn.Sequential(nn.LayerNorm(WIDTH), nn.ReLU(), nn.Linear(WIDTH, 3))

    def forward(self, numbers: Tensor, categories: Tensor) -> Tensor:
        embedded = [table(categories[:, index]) for index, table in enumerate(self.tables)]
        x = self.enter(torch.cat([numbers, *embedded], dim=1))
        for block in self.blocks:
            x = x + block(x)
        return self.head(x)


class PeriodicEmbedding(nn.Module):
    """Each number becomes a token of sines and cosines, then a transformer reads the tokens."""

    def __init__(self) -> None:
        super().__init__()
        self.frequency_scale = nn.Parameter(torch.ones(10, 8))
        self.token = nn.Linear(16, WIDTH)
        self.cls_token = nn.Parameter(torch.zeros(1, 1, WIDTH))
        self.layer = nn.TransformerEncoderLayer(WIDTH, 4, 64, activation="gelu", batch_first=True, norm_first=True)
        self.head = nn.Linear(WIDTH, 1)

    def forward(self, numbers: Tensor) -> Tensor:
        angle = 2 * math.pi * numbers[..., None] * self.frequency_scale
        tokens = self.token(torch.cat([angle.sin(), angle.cos()], dim=-1))
        tokens = torch.cat([self.cls_token.expand(len(numbers), -1, -1), tokens], dim=1)
        return self.head(self.layer(tokens)[:, 0])


def tabular_resnet() -> Made:
    categories = torch.stack([integers(0, f"c{size}", (6,), 0, size) for size in (5, 11, 3)], dim=1)
    return _alive(TabularResNet(), floats(0, "numbers", (6, 10)), categories)


def tabular_ft_transformer() -> Made:
    return _alive(PeriodicEmbedding(), floats(0, "numbers", (6, 10)))


class Dlrm(nn.Module):
    """Dense features, bags of ids and their pairwise products (Naumov et al., 2019)."""

    def __init__(self) -> None:
        super().__init__()
        self.bottom = nn.Sequential(nn.Linear(13, 32), nn.ReLU(), nn.Linear(32, 16), nn.ReLU())
        self.bags = nn.ModuleList(nn.EmbeddingBag(100, 16, mode="sum") for _ in range(3))
        self.top = nn.Sequential(nn.Linear(16 + 6, 32), nn.ReLU(), nn.Linear(32, 1), nn.Sigmoid())
        self.register_buffer("pairs", torch.triu_indices(4, 4, offset=1))

    def forward(self, dense: Tensor, ids: Tensor) -> Tensor:
        x = self.bottom(dense)
        features = torch.stack([x, *(bag(ids[:, index]) for index, bag in enumerate(self.bags))], dim=1)
        products = torch.bmm(features, features.transpose(1, 2))[:, self.pairs[0], self.pairs[1]]
        return self.top(torch.cat([x, products], dim=1)).squeeze(1)


class TwoTowers(nn.Module):
    """A user and items meet in one space; the best items are ranked."""

    def __init__(self) -> None:
        super().__init__()
        self.users, self.items = nn.Embedding(50, WIDTH), nn.Embedding(200, WIDTH)
        self.user = nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.GELU(), nn.Linear(WIDTH, WIDTH))
        self.item = nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.GELU(), nn.Linear(WIDTH, WIDTH))
        self.temperature = nn.Parameter(torch.ones(()))

    def forward(self, users: Tensor, items: Tensor) -> tuple[Tensor, Tensor]:
        left = F.normalize(self.user(self.users(users)), dim=-1)
        right = F.normalize(self.item(self.items(items)), dim=-1)
        best = torch.topk(left @ right.T / self.temperature, 5)
        return F.log_softmax(best.values, dim=-1), best.indices


class SequentialRecommender(nn.Module):
    """The next item from those before it: a recurrent network over item embeddings."""

    def __init__(self) -> None:
        super().__init__()
        self.items = nn.Embedding(200, WIDTH, padding_idx=0)
        self.memory = nn.GRU(WIDTH, WIDTH, batch_first=True)

    def forward(self, history: Tensor) -> Tensor:
        states, _ = self.memory(self.items(history))
        return states[:, -1] @ self.items.weight.T


def recommendation_dlrm() -> Made:
    return _alive(Dlrm(), floats(0, "dense", (4, 13)), integers(0, "ids", (4, 3, 5), 0, 100))


def recommendation_two_towers() -> Made:
    return _alive(TwoTowers(), integers(0, "users", (4,), 0, 50), integers(0, "items", (30,), 0, 200))


def recommendation_gru4rec() -> Made:
    return _alive(SequentialRecommender(), integers(0, "history", (3, 10), 1, 200))


class DuelingQ(nn.Module):
    """Screen frames to the value of each action (Wang et al., 2016)."""

    def __init__(self) -> None:
        super().__init__()
        self.eye = nn.Sequential(nn.Conv2d(4, 8, 8, 4), nn.ReLU(), nn.Conv2d(8, 16, 4, 2), nn.ReLU(), nn.Flatten())
        self.value, self.advantage = nn.Linear(16 * 25, 1), nn.Linear(16 * 25, 6)

    def forward(self, frames: Tensor) -> tuple[Tensor, Tensor]:
        x = self.eye(frames.float() / 255)
        advantage = self.advantage(x)
        q = self.value(x) + advantage - advantage.mean(1, keepdim=True)
        return q, q.argmax(1)


class ActorCritic(nn.Module):
    """A Gaussian policy and a value from one observation, with the policy's log probability and entropy."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Linear(17, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh())
        self.mean, self.value = nn.Linear(64, 6), nn.Linear(64, 1)
        self.log_std = nn.Parameter(torch.zeros(6))

    def forward(self, observation: Tensor, action: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        x = self.body(observation)
        std = self.log_std.clamp(-5, 2).exp()
        distance = (action - self.mean(x)) / std
        log_probability = (-0.5 * distance.square() - self.log_std - 0.5 * math.log(2 * math.pi)).sum(-1)
        entropy = (0.5 + 0.5 * math.log(2 * math.pi) + self.log_std).sum()
        return torch.tanh(action), log_probability + entropy, self.value(x).squeeze(-1)


def rl_dueling_dqn() -> Made:
    return _alive(DuelingQ(), integers(0, "frames", (1, 4, 52, 52), 0, 8).mul(32).to(torch.uint8))


def rl_actor_critic() -> Made:
    return _alive(ActorCritic(), floats(0, "observation", (5, 17)), floats(0, "action", (5, 6)))


class Denoiser(nn.Module):
    """One step down, attention, one step up, with the time added in between (Ho et al., 2020)."""

    def __init__(self) -> None:
        super().__init__()
        self.time = nn.Sequential(nn.Linear(32, 64), nn.SiLU(), nn.Linear(64, 32))
        self.enter = nn.Conv2d(3, 16, 3, padding=1)
        self.down = nn.Conv2d(16, 32, 3, stride=2, padding=1)
        self.norm_1, self.norm_2 = nn.GroupNorm(4, 32), nn.GroupNorm(4, 32)
        self.qkv, self.out = nn.Conv2d(32, 96, 1), nn.Conv2d(32, 32, 1)
        self.up = nn.ConvTranspose2d(32, 16, 4, stride=2, padding=1)
        self.leave = nn.Conv2d(32, 3, 3, padding=1)

    def forward(self, x: Tensor, steps: Tensor) -> Tensor:
        rate = torch.exp(torch.arange(16) * (-math.log(10_000.0) / 16))
        angle = steps[:, None] * rate
        time = self.time(torch.cat([angle.sin(), angle.cos()], dim=1))
        wide = self.enter(x)
        deep = F.silu(self.norm_1(self.down(wide))) + time[:, :, None, None]
        q, k, v = self.qkv(self.norm_2(deep)).flatten(2).transpose(1, 2).chunk(3, dim=-1)
        attended = F.scaled_dot_product_attention(q, k, v).transpose(1, 2).unflatten(2, deep.shape[2:])
        deep = deep + self.out(attended)
        return self.leave(torch.cat([wide, F.silu(self.up(deep))], dim=1))


class DiffusionTransformer(nn.Module):
    """Patches with scale and shift from the time (Peebles and Xie, 2023)."""

    def __init__(self) -> None:
        super().__init__()
        self.patch = nn.Conv2d(4, WIDTH, 2, stride=2)
        self.position_embed = nn.Parameter(torch.zeros(1, 64, WIDTH))
        self.modulate = nn.Sequential(nn.SiLU(), nn.Linear(WIDTH, 6 * WIDTH))
        self.labels = nn.Embedding(10, WIDTH)
        self.attention = nn.MultiheadAttention(WIDTH, 4, batch_first=True)
        self.mlp = nn.Sequential(nn.Linear(WIDTH, 64), nn.GELU(approximate="tanh"), nn.Linear(64, WIDTH))
        self.head = nn.Linear(WIDTH, 16)

    def forward(self, latent: Tensor, label: Tensor) -> Tensor:
        x = self.patch(latent).flatten(2).transpose(1, 2) + self.position_embed
        shift_1, scale_1, gate_1, shift_2, scale_2, gate_2 = self.modulate(self.labels(label))[:, None].chunk(6, dim=-1)
        y = F.layer_norm(x, (WIDTH,)) * (1 + scale_1) + shift_1
        x = x + gate_1 * self.attention(y, y, y, need_weights=False)[0]
        y = F.layer_norm(x, (WIDTH,)) * (1 + scale_2) + shift_2
        x = self.head(x + gate_2 * self.mlp(y))
        return F.pixel_shuffle(x.transpose(1, 2).unflatten(2, (8, 8)), 2)


def diffusion_unet() -> Made:
    return _alive(Denoiser(), floats(0, "x", (2, 3, 16, 16)), torch.tensor([3.0, 250.0]))


def diffusion_dit() -> Made:
    return _alive(DiffusionTransformer(), floats(0, "latent", (2, 4, 16, 16)), torch.tensor([3, 7]))


class Forecaster(nn.Module):
    """Dilated causal convolutions, then the next values (Bai et al., 2018)."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Conv1d(3 if d == 1 else 16, 16, 3, dilation=d) for d in (1, 2, 4, 8))
        self.head = nn.Linear(16, 6)

    def forward(self, series: Tensor) -> Tensor:
        centre, spread = series.mean(-1, keepdim=True), series.std(-1, keepdim=True) + 1e-5
        x = (series - centre) / spread
        for layer in self.layers:
            y = F.gelu(layer(F.pad(x, (2 * layer.dilation[0], 0))))
            x = y + x if x.shape == y.shape else y
        return self.head(x[..., -1]) * spread[:, :1, 0] + centre[:, :1, 0]


class LstmForecaster(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.memory = nn.LSTM(5, 24, num_layers=2, batch_first=True)
        self.head = nn.Linear(24, 3)

    def forward(self, series: Tensor) -> tuple[Tensor, Tensor]:
        states, (last, _) = self.memory(series)
        return self.head(states).cumsum(1), last


def time_series_tcn() -> Made:
    return _alive(Forecaster(), floats(0, "series", (2, 3, 32)))


def time_series_lstm() -> Made:
    return _alive(LstmForecaster(), floats(0, "series", (2, 12, 5)))

from __future__ import annotations

import pytest
import torch
from torch import nn

from mindgap.corpus.weights import EMBEDDING, SCALE, SHIFT, enliven, fan_in, range_of


class Tied(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(20, 8)
        self.head = nn.Linear(8, 20, bias=False)
        self.head.weight = self.embedding.weight


class Everything(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 8, 3)
        self.norm = nn.BatchNorm2d(8)
        self.gamma = nn.Parameter(1e-6 * torch.ones(8, 1, 1))
        self.cls_token = nn.Parameter(torch.zeros(1, 1, 8))
        self.low = nn.Parameter(torch.zeros(16, 16, dtype=torch.float16))
        self.register_buffer("mask", torch.tril(torch.ones(4, 4)))


def test_the_same_seed_gives_the_same_weights_whatever_they_were() -> None:
    first, second = Everything(), Everything()
    enliven(first, 7)
    enliven(second, 7)
    for left, right in zip(first.state_dict().values(), second.state_dict().values()):
        assert torch.equal(left, right)
    enliven(second, 8)
    assert not torch.equal(first.conv.weight, second.conv.weight)


def test_nothing_is_dead_and_statistics_are_alive() -> None:
    model = Everything()
    enliven(model, 0)
    assert all((p != 0).all() for p in (model.gamma, model.cls_token, model.norm.weight))
    assert model.gamma.min() >= 0.5 and model.gamma.max() <= 1.5
    assert model.norm.running_var.min() >= 0.5 and model.norm.running_var.max() <= 1.5
    assert 0 < model.norm.running_mean.abs().max() <= 0.1
    assert torch.equal(model.mask, torch.tril(torch.ones(4, 4)))
    assert model.low.dtype == torch.float16 and model.low.std() > 0.1


def test_a_frozen_normalisation_is_alive_too() -> None:
    class Frozen(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            for name in ("weight", "bias", "running_mean", "running_var"):
                self.register_buffer(name, torch.zeros(4))

    model = nn.Sequential(Frozen())
    drawn = enliven(model, 0)
    assert set(drawn) == {f"0.{name}" for name in ("weight", "bias", "running_mean", "running_var")}
    assert model[0].weight.min() >= 0.5 and model[0].bias.abs().max() <= 0.1


def test_tied_parameters_stay_tied() -> None:
    model = Tied()
    enliven(model, 0)
    assert model.head.weight is model.embedding.weight
    assert model.embedding.weight.std().item() == pytest.approx(1, abs=0.2)


def test_a_linear_layer_keeps_the_variance() -> None:
    layer = nn.Linear(512, 256, bias=False)
    enliven(layer, 0)
    with torch.no_grad():
        out = layer(torch.randn(64, 512, generator=torch.Generator().manual_seed(0)))
    assert out.std() == pytest.approx(1, abs=0.1)


@pytest.mark.parametrize(
    ("owner", "name", "shape", "expected"),
    [
        (nn.LayerNorm(8), "weight", (8,), SCALE),
        (nn.LayerNorm(8), "bias", (8,), SHIFT),
        (nn.Module(), "layer_scale_1", (8, 1, 1), SCALE),
        (nn.Module(), "logit_scale", (), SCALE),
        (nn.Module(), "pos_embed", (1, 4, 8), EMBEDDING),
        (nn.Embedding(4, 8), "weight", (4, 8), EMBEDDING),
        (nn.Linear(3, 1), "weight", (1, 3), (-1.0, 1.0)),
    ],
)
def test_range_follows_from_owner_name_and_shape(
    owner: nn.Module, name: str, shape: tuple[int, ...], expected: tuple[float, float]
) -> None:
    assert range_of(owner, name, torch.zeros(shape)) == pytest.approx(expected)


def test_fan_in_counts_what_is_summed() -> None:
    conv = nn.Conv2d(8, 4, 3, groups=2)
    assert fan_in(conv, conv.weight) == 4 * 9
    up = nn.ConvTranspose2d(8, 4, 2, stride=2)
    assert fan_in(up, up.weight) == 8
    assert fan_in(nn.Module(), torch.zeros(4, 16, 32)) == 32

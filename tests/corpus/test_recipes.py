"""Weights that a seed gives are found, whatever wraps, ties or casts them."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from mindgap.corpus.casting import in_precision
from mindgap.corpus.export import export
from mindgap.corpus.inputs import floats
from mindgap.corpus.loaded import Loaded
from mindgap.corpus.recipes import recipe_of, with_held
from mindgap.corpus.weights import enliven, made_of
from mindgap.program.made import Held, Made, makes
from mindgap.records.tensors import NamedTensor


class Inner(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(10, 6)
        self.norm = nn.BatchNorm1d(6)
        self.head = nn.Linear(6, 10)
        self.head.weight = self.table.weight
        self.register_buffer("scale", torch.arange(6.0))

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        return self.head(self.norm(self.table(ids)) * self.scale)


class Outer(nn.Module):
    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        return self.inner(ids).softmax(-1)


def loaded(model: nn.Module) -> Loaded:
    model.eval()
    return Loaded("m", (torch.tensor([1, 9, 3]),), {}, model=model, made=made_of(model))


@pytest.mark.parametrize("dtype", [None, "bfloat16", "float64"])
def test_every_drawn_weight_is_made_again(dtype: str | None) -> None:
    inner = Inner()
    drawn = enliven(inner, 4)
    model = in_precision(loaded(Outer(inner)), dtype)
    assert drawn["head.bias"].stream == "head.bias" and model.made["inner.head.weight"].stream == "table.weight"
    program, constants = export(model)
    made = {c.name: c.made for c in program.constants}
    assert {name for name, recipe in made.items() if recipe is None} == {"inner.scale"}
    assert all(makes(c.made, constants[c.digest]) for c in program.constants if c.made is not None)
    inside = with_held(program, constants)
    assert all(c.made is not None for c in inside.constants)
    assert isinstance(program.example[0], Held)


def test_a_weight_that_was_changed_afterwards_is_stored() -> None:
    inner = Inner()
    enliven(inner, 0)
    with torch.no_grad():
        inner.head.bias[0] += 1
    program, _ = export(loaded(inner))
    assert {c.name for c in program.constants if c.made is None} == {"head.bias", "scale"}


def test_a_module_that_was_not_drawn_has_no_recipes() -> None:
    assert made_of(Inner()) == {} and made_of(torch.sin) == {}


def test_inputs_are_drawn_held_or_alike() -> None:
    drawn = floats(7, "pixels", (1, 3, 64, 64))
    assert recipe_of(NamedTensor("pixels", drawn), 7) == Made(7, "pixels", -(3**0.5), 3**0.5)
    assert isinstance(recipe_of(NamedTensor("x", drawn.half()), 8), Made)
    assert recipe_of(NamedTensor("ids", torch.tensor([5, 6])), 0) == Held(torch.tensor([5, 6]).numpy().tobytes())
    picture = torch.rand(64, 128, generator=torch.Generator().manual_seed(0))
    alike = recipe_of(NamedTensor("x", picture), 0)
    assert isinstance(alike, Made) and alike.low >= 0 and alike.high <= 1
    large = torch.arange(0, 20_000).pow(3) % 9973
    assert isinstance(recipe_of(NamedTensor("ids", large), 0), Held)

"""Dead and poisoned operators are counted; masks and initial states are not taken for them."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from mindgap.corpus.export import export, prepare
from mindgap.corpus.liveness import Liveness, LivenessObserver
from mindgap.corpus.loaded import Loaded
from mindgap.program.interpret import Executable

X = torch.linspace(-1, 1, 12).reshape(3, 4)


def watch(model: nn.Module | object, *args: torch.Tensor) -> Liveness:
    loaded = Loaded("m", args or (X,), {}, model=model)  # type: ignore[arg-type]
    inputs = prepare(loaded)
    program, constants = export(loaded)
    observer = LivenessObserver(program, constants, inputs.copies())
    Executable(program, constants).run(inputs.copies(), observer=observer)
    return observer.found()


class ZeroScale(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.gamma = nn.Parameter(torch.zeros(4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.gamma * x.sin()


def masked(x: torch.Tensor) -> torch.Tensor:
    scores = x @ x.T
    hidden = torch.ones(3, 3).tril() == 0
    return scores.masked_fill(hidden, float("-inf")).softmax(-1) @ x


def state(x: torch.Tensor) -> torch.Tensor:
    memory = torch.zeros(4)
    for row in x:
        memory = memory * row.sigmoid() + row
    return memory


def test_a_zero_scale_is_a_dead_branch() -> None:
    found = watch(ZeroScale())
    assert (found.constant, found.nonfinite, found.alive) == (1, 0, False)
    assert found.example.startswith("aten.mul.Tensor")


@pytest.mark.parametrize(
    "model",
    [
        masked,
        state,
        lambda x: torch.zeros_like(x) + x,
        lambda x: x.mean().expand(5) * 2,
        lambda x: x.mean().exp().expand_as(x) * x,
        lambda x: x[:, None].softmax(1) * x,
        lambda x: nn.functional.layer_norm(x[..., None], (1,)) + x[..., None],
        lambda x: torch.cat([x, x.clone().zero_()]) + 1,
        lambda x: (x @ x.T).tril().exp2()[0, 1:] * x[0, 1:3],
        lambda x: nn.functional.pad(x, (2, 0)).sin()[:, :2] * x[:, :2],
    ],
)
def test_masks_initial_states_and_expanded_scalars_are_alive(model: object) -> None:
    assert watch(model).alive


def test_only_what_clips_may_die_by_chance() -> None:
    assert watch(lambda x: torch.relu(x - 5) + x).died_by_chance
    assert not watch(ZeroScale()).died_by_chance and not watch(torch.relu).died_by_chance


def test_a_saturated_softmax_is_dead() -> None:
    assert watch(lambda x: (x * 1e6).softmax(-1)[:, :2]).constant == 1


def test_nan_and_overflow_are_poison() -> None:
    assert watch(lambda x: x.log()).nonfinite == 1
    assert watch(lambda x: (x * 1e3).exp() * 2).nonfinite == 1, "the infinity that follows from one is not another"


def test_integers_are_not_counted() -> None:
    found = watch(lambda i: (i + 1) // 2, torch.arange(4))
    assert found == Liveness(0, 0, 0)

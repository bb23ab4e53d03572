"""The whole product on one small function, in seconds: run this one first."""

from __future__ import annotations

import torch

import mindgap


def softmax_of_sum(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return torch.softmax(x + y, dim=-1)


def test_a_function_is_checked_from_python() -> None:
    result = mindgap.check(softmax_of_sum, [torch.randn(2, 3), torch.ones(3)], on=["eager", "eager@scalar"])
    assert {name: item.outcome.status.value for name, item in result.platforms.items()} == {
        "eager": "ok",
        "eager@scalar": "ok",
    }
    assert not result.differs
    assert result.platforms["eager"].verdict.conclusion.value == "agrees"

"""Source text computes what the program computes, and reads like PyTorch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from mindgap.explanation.code import tensor_text, write_code
from mindgap.records.tensors import same_bits
from tests.tracing.witnesses import chain, run_here, witness_of, writing

I = torch.tensor  # noqa: E741

WEIGHT, BIAS = torch.arange(6.0).reshape(2, 3), torch.ones(2)

CALLS: dict[str, tuple[Callable[..., Any], list[torch.Tensor], str]] = {
    "floor_divide": (lambda x, y: torch.floor_divide(x, y), [I([-7]), I([2])], "torch.floor_divide(x, y)"),
    "division": (lambda x: torch.div(x, 2, rounding_mode="floor"), [I([-7])], "rounding_mode="),
    "pool": (lambda x: F.avg_pool2d(x, 2, ceil_mode=True), [torch.ones(1, 1, 5, 5)], "F.avg_pool2d("),
    "sum": (lambda x: x.sum(dim=1, keepdim=True), [torch.ones(2, 3)], "torch.sum(x, dim=[1], keepdim=True)"),
    "inplace": (lambda x: x.clone().add_(1), [torch.ones(2)], ".add_(1)"),
    "cast": (lambda x: x.to(torch.bfloat16), [torch.ones(2)], "bfloat16"),
    "full": (lambda x: x + torch.full((2,), 0.5, dtype=torch.float16), [torch.ones(2)], "float16=torch.float16"),
    "softmax": (lambda x: torch.softmax(x, -1), [torch.ones(2, 2)], "softmax(x, dim=-1)"),
    "norm": (lambda x: F.layer_norm(x, (3,)), [torch.randn(2, 3)], "layer_norm("),
    "constants": (lambda x: F.linear(x, WEIGHT, BIAS), [torch.randn(4, 3)], "F.linear(x, self.c0, self.c1)"),
    "chain": (chain, [torch.randn(4, 4)], "[0]"),
    "writing": (writing, [torch.randn(3, 4)], "mul_(3)"),
}


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize("exact", [False, True])
def test_the_source_gives_the_program_s_bits(name: str, exact: bool) -> None:
    function, args, words = CALLS[name]
    witness = witness_of(function, *args)
    code = write_code(witness, as_module=False, returns_changed=False, exact=exact)
    assert exact or words in code.function, code.function
    assert not exact or "torch.ops.aten." in code.function or "getitem" in code.function
    scope: dict[str, Any] = {"torch": torch, "F": F}
    exec(code.function, scope)
    model = scope["Model"]() if code.is_module else scope["model"]
    inputs = [eval(text, {"torch": torch}) for text in code.inputs]
    with torch.no_grad():
        result = model(*inputs)
    for found, item in zip(result if isinstance(result, tuple) else [result], run_here(witness).outputs):
        assert same_bits(found.contiguous(), item.tensor)


@settings(max_examples=60, deadline=None)
@given(arrays.arrays("float32", st.lists(st.integers(0, 4), max_size=3).map(tuple)), st.booleans())
def test_literals_give_the_same_bits_and_layout(array: Any, turned: bool) -> None:
    tensor = torch.from_numpy(array)
    tensor = tensor.permute(list(reversed(range(tensor.dim())))) if turned else tensor
    again = eval(tensor_text(tensor, "x", {}), {"torch": torch})
    both = torch.where(tensor.isnan(), torch.zeros_like(tensor), tensor)
    assert again.shape == tensor.shape and again.dtype == tensor.dtype
    if tensor.numel() > 1:
        assert again.stride() == tensor.stride()
    assert same_bits(torch.where(again.isnan(), torch.zeros_like(again), again), both)
    assert torch.equal(again.isnan(), tensor.isnan())


def test_large_tensors_go_to_a_file() -> None:
    data: dict[str, torch.Tensor] = {}
    assert tensor_text(torch.randn(100), "x", data) == 'DATA["x"]' and list(data) == ["x"]
    assert tensor_text(torch.full((100,), 0.1), "y", data) == "torch.full((100,), 0.1)"

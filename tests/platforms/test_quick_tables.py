"""Tables that torch makes anew for each program may be kept: what it decomposes stays the same."""

from __future__ import annotations

from typing import Any

import torch

from mindgap.platforms.quick_tables import quick_tables


class Composite(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> Any:
        y = torch.nn.functional.group_norm(x, 2).clamp_(0, 1)
        return torch.nn.functional.scaled_dot_product_attention(y, y, y), torch.special.expm1(x).chunk(2, -1)


def decomposed() -> list[str]:
    exported = torch.export.export(Composite(), (torch.linspace(-1, 1, 96).reshape(1, 4, 4, 6),), strict=False)
    found = exported.run_decompositions()
    return [f"{node.name} {node.target} {node.args} {node.meta.get('val')}" for node in found.graph.nodes]


def test_a_program_is_decomposed_as_without_them() -> None:
    usual = decomposed()
    with quick_tables():
        first, again = decomposed(), decomposed()
    assert usual == first == again == decomposed()
    assert any("convolution" not in line and "native_group_norm" in line for line in usual)


def test_afterwards_torch_is_as_it_was() -> None:
    before = torch._ops.OperatorBase.py_impl
    with quick_tables():
        assert torch._ops.OperatorBase.py_impl is not before
    with quick_tables(wanted=False):
        assert torch._ops.OperatorBase.py_impl is before
    assert torch._ops.OperatorBase.py_impl is before

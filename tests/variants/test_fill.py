"""Arguments that a caller could give: none contradicts another, or is a number because TorchScript says so."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from mindgap.program.graph import Program
from mindgap.records.variant import Sweep
from mindgap.variants.catalogue import signature
from mindgap.variants.invocations import Invoking


def made(op: str, seed: int) -> Program:
    found = Invoking(Sweep((op,), ("float32",), ("ordinary",)), [], seed).make(0)
    assert found is not None
    return found.program


def given(program: Program) -> dict[str, Any]:
    """The arguments of the one call, by name."""
    node, known = program.nodes[0], signature(program.nodes[0].op)
    assert known is not None
    return {**{item.name: held for item, held in zip(known.parameters, node.args)}, **node.kwargs}


@pytest.mark.parametrize(
    "op", ["aten.upsample_nearest1d.default", "aten.upsample_bilinear2d.default", "aten.upsample_trilinear3d.default"]
)
def test_a_scale_says_what_the_size_beside_it_says(op: str) -> None:
    scaled = 0
    for seed in range(8):
        program = made(op, seed)
        found = given(program)
        for name, place in {"scales": -1, "scales_w": -1, "scales_h": -2, "scales_d": -3}.items():
            if (scale := found.get(name)) is not None:
                scaled += 1
                extent = program.inputs[0].meta.shape[place]
                assert scale * extent == pytest.approx(found["output_size"][place])
    assert scaled


def test_an_element_type_is_that_of_the_tensor() -> None:
    assert made("aten._softmax_backward_data.default", 0).nodes[0].args[3] is torch.float32

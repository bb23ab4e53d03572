"""An exception that comes out of a node's call says which operator it was."""

from __future__ import annotations

import pytest
import torch

from mindgap.program.graph import Input, Node, Program, Ref
from mindgap.program.interpret import Executable, raised_at
from mindgap.records.tensors import TensorMeta

META = TensorMeta((2,), "float32", (1,))


def test_the_operator_that_raised_is_known() -> None:
    nodes = (
        Node(1, "aten.neg.default", (Ref(0),), {}, META),
        Node(2, "aten.select.int", (Ref(1), 0, 9), {}, TensorMeta((), "float32", ())),
    )
    program = Program("bad", (Input(0, "x", META),), (), nodes, (Ref(2),))
    with pytest.raises(IndexError) as caught:
        Executable(program, {}).run([torch.ones(2)])
    assert raised_at(caught.value) == "aten.select.int"
    assert raised_at(ValueError("elsewhere")) == ""

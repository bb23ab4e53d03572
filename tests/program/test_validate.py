"""A program that breaks a rule of the graph is refused with the node's name."""

from __future__ import annotations

import pytest

from mindgap.errors import CorruptProgram
from mindgap.program.graph import Input, Node, Program, Ref
from mindgap.records.tensors import TensorMeta
from tests.program.validating import validate

META = TensorMeta((2, 3), "float32", (3, 1))


def program(*nodes: Node) -> Program:
    return Program("p", (Input(0, "x", META),), (), nodes, Ref(nodes[-1].id))


def test_a_good_program_passes() -> None:
    validate(program(Node(1, "aten.relu.default", (Ref(0),), {}, META)))


@pytest.mark.parametrize(
    ("node", "text"),
    [
        (Node(1, "aten.nothing.default", (Ref(0),), {}, META), "does not exist"),
        (Node(0, "aten.relu.default", (Ref(0),), {}, META), "reuses the id"),
        (Node(1, "aten.relu.default", (Ref(0), 1, 2), {}, META), "does not take 3 positional"),
        (Node(1, "aten.relu.default", (Ref(0),), {"eps": 1}, META), "does not take keyword eps"),
        (Node(1, "aten.relu.default", ("text",), {}, META), "does not accept its arguments"),
        (Node(1, "aten.view.default", (Ref(0), [7]), {}, META), "does not accept its arguments"),
        (Node(1, "aten.sum.default", (Ref(0),), {}, META), r"gives float32\[\], not the recorded"),
    ],
)
def test_a_broken_rule_is_named(node: Node, text: str) -> None:
    with pytest.raises(CorruptProgram, match=text):
        validate(program(node))

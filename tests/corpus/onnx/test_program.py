"""An ONNX file as a program: the same numbers as ONNX Runtime gives, and what cannot be read is refused by name."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
import torch

from mindgap.bench.audit import programs
from mindgap.corpus.onnx.program import program_of_onnx
from mindgap.errors import UnsupportedConstruct
from mindgap.platforms.base import StageClock
from mindgap.platforms.onnx.export import export_onnx
from mindgap.program import codec
from mindgap.program.case import Case
from mindgap.program.examples import of_program
from mindgap.program.graph import leaves
from mindgap.program.inputs import copy_of
from mindgap.program.interpret import Executable

onnx = pytest.importorskip("onnx")
onnxruntime = pytest.importorskip("onnxruntime")
helper = pytest.importorskip("onnx.helper")


def model_of(
    nodes: Sequence[Any], inputs: dict[str, torch.Tensor], weights: dict[str, np.ndarray] | None = None
) -> Any:
    """A model that returns what its last node makes."""
    described = [
        helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(tensor.numpy().dtype), list(tensor.shape))
        for name, tensor in inputs.items()
    ]
    known = [onnx.numpy_helper.from_array(array, name) for name, array in (weights or {}).items()]
    graph = helper.make_graph(nodes, "graph", described, [onnx.ValueInfoProto(name=nodes[-1].output[0])], known)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


def assert_the_same(model: Any, inputs: dict[str, torch.Tensor]) -> None:
    session = onnxruntime.InferenceSession(model.SerializeToString())
    wanted = session.run(None, {name: tensor.numpy() for name, tensor in inputs.items()})
    found = program_of_onnx(model, "model", inputs)
    assert [item.name for item in found.program.inputs] == list(inputs) and not found.left_out
    made = Executable(found.program, found.constants).run([copy_of(tensor) for tensor in inputs.values()])
    for (_, ours), theirs in zip(leaves(made), wanted, strict=True):
        torch.testing.assert_close(ours, torch.from_numpy(theirs), rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize(
    "name",
    ["smoke:vision-resnet", "smoke:language-deberta-v2", "smoke:graph-gcn"],
)
def test_an_exported_model_comes_back(name: str) -> None:
    program, constants = codec.load(programs()[name])
    case = Case.of(program, constants, of_program(program, 0))
    model = export_onnx(case, StageClock()).proto
    given = {value.name: tensor for value, tensor in zip(model.graph.input, case.tensors)}
    assert_the_same(model, given)


@pytest.mark.parametrize("flag", [True, False])
def test_a_condition_on_an_input_becomes_both_sides_and_a_choice(flag: bool) -> None:
    def side(op: str, name: str) -> Any:
        result = [onnx.ValueInfoProto(name=name)]
        return helper.make_graph([helper.make_node(op, ["x"], [name], name=f"{op} it")], op, [], result)

    node = helper.make_node("If", ["flag"], ["y"], then_branch=side("Neg", "a"), else_branch=side("Exp", "b"))
    inputs = {"flag": torch.tensor(flag), "x": torch.randn(2, 3)}
    model = model_of([node], inputs)
    assert_the_same(model, inputs)
    made = program_of_onnx(model, "model", inputs).program
    assert {"aten.neg.default", "aten.exp.default", "aten.where.self"} <= {n.op for n in made.nodes}
    assert any("Neg_it" in n.where for n in made.nodes)


def test_sizes_are_known_and_recurrence_reads_its_weights_in_order() -> None:
    rng = np.random.default_rng(0)
    weights = {"w": rng.normal(size=(2, 20, 4)), "r": rng.normal(size=(2, 20, 5)), "b": rng.normal(size=(2, 40))}
    nodes = [
        helper.make_node("LSTM", ["x", "w", "r", "b"], ["y"], hidden_size=5, direction="bidirectional"),
        helper.make_node("Shape", ["x"], ["size"], start=0, end=2),
        helper.make_node("Concat", ["size", "rest"], ["wanted"], axis=0),
        helper.make_node("Transpose", ["y"], ["t"], perm=[0, 2, 1, 3]),
        helper.make_node("Reshape", ["t", "wanted"], ["z"]),
    ]
    given = {name: array.astype(np.float32) for name, array in weights.items()}
    inputs = {"x": torch.randn(3, 2, 4)}
    assert_the_same(model_of(nodes, inputs, {**given, "rest": np.array([-1])}), inputs)


def test_quantised_layers_compute_what_they_stand_for() -> None:
    nodes = [
        helper.make_node("DynamicQuantizeLinear", ["x"], ["q", "s", "z"]),
        helper.make_node("MatMulInteger", ["q", "w", "z"], ["p"]),
        helper.make_node("Cast", ["p"], ["f"], to=1),
        helper.make_node("Mul", ["f", "s"], ["y"]),
    ]
    inputs = {"x": torch.rand(3, 4) * 4 - 1}
    weight = np.arange(-10, 10, dtype=np.int8).reshape(4, 5)
    assert_the_same(model_of(nodes, inputs, {"w": weight}), inputs)


def test_what_cannot_be_read_is_refused_by_name() -> None:
    inputs = {"x": torch.randn(3)}
    unknown = helper.make_node("Sparkle", ["x"], ["y"], domain="com.example")
    with pytest.raises(UnsupportedConstruct, match=r"com\.example\.Sparkle"):
        program_of_onnx(model_of([unknown], inputs), "model", inputs)
    alone = helper.make_node("Constant", [], ["y"], value_float=1.0)
    with pytest.raises(UnsupportedConstruct, match="do not depend on its inputs"):
        program_of_onnx(model_of([alone], inputs), "model", inputs)

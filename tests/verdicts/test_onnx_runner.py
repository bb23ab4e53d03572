"""An ONNX file, node by node: as the reference implementation runs it, in float64, and with noise."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from mindgap.program.inputs import Inputs
from mindgap.records.verdict import Conclusion
from mindgap.verdicts.judge import judge
from mindgap.verdicts.onnx_runner import ALIKE, OnnxFile
from mindgap.verdicts.runner import Call, runner_of
from mindgap.verdicts.surveyor import survey
from tests.verdicts.programs import ok

onnx = pytest.importorskip("onnx")
from onnx import TensorProto, helper, numpy_helper  # noqa: E402


def saved(
    path: Path, nodes: list[Any], inputs: dict[str, Any], outputs: list[str], constants: dict[str, Any] | None = None
) -> Path:
    """A model of these nodes; inputs are of float32."""
    given = [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in inputs.items()]
    made = [helper.make_value_info(name, helper.make_tensor_type_proto(TensorProto.FLOAT, None)) for name in outputs]
    held = [numpy_helper.from_array(np.asarray(value), name) for name, value in (constants or {}).items()]
    graph = helper.make_graph(nodes, "graph", given, made, held)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)
    onnx.save(model, path)
    return path


@pytest.fixture
def network(tmp_path: Path) -> Path:
    """A convolution, a reduction and a product, with constants of every kind."""
    chance = np.random.default_rng(0)
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["a"], pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["a"], ["b"]),
        helper.make_node("ReduceMean", ["b", "axes"], ["c"], keepdims=0),
        helper.make_node("Constant", [], ["half"], value_float=0.1),
        helper.make_node("Mul", ["c", "half"], ["d"]),
        helper.make_node("Cast", ["d"], ["e"], to=TensorProto.FLOAT),
        helper.make_node("Gemm", ["e", "m", "v"], ["f"]),
        helper.make_node("Softmax", ["f"], ["y"], axis=-1),
    ]
    constants = {
        "w": chance.standard_normal((4, 3, 3, 3)).astype(np.float32),
        "axes": np.array([2, 3]),
        "m": chance.standard_normal((4, 5)).astype(np.float32),
        "v": chance.standard_normal(5).astype(np.float32),
    }
    return saved(tmp_path / "network.onnx", nodes, {"x": [2, 3, 8, 8]}, ["y"], constants)


def given(**tensors: torch.Tensor) -> Inputs:
    return Inputs.of((), tensors)


def test_a_plain_run_is_the_reference_implementations(network: Path) -> None:
    from onnx.reference import ReferenceEvaluator

    x = torch.randn(2, 3, 8, 8, generator=torch.Generator().manual_seed(0))
    found = runner_of(OnnxFile(str(network)), given(x=x), 0).run(Call.make)
    expected = ReferenceEvaluator(str(network)).run(None, {"x": x.numpy()})[0]
    assert torch.equal(found["y"], torch.from_numpy(expected))


def test_float64_is_float64_throughout(network: Path) -> None:
    x = torch.randn(2, 3, 8, 8, generator=torch.Generator().manual_seed(0))
    runner = runner_of(OnnxFile(str(network)), given(x=x), 0)
    plain, wide = runner.run(Call.make)["y"], runner.run(Call.make, wide=True)["y"]
    assert wide.dtype is torch.float64
    distance = float((plain.double() - wide).abs().max())
    assert 0 < distance < 1e-5, "the same function, without the rounding of float32"


def test_a_survey_tells_what_rounding_explains(network: Path) -> None:
    x = torch.randn(2, 3, 8, 8, generator=torch.Generator().manual_seed(0))
    found = survey(OnnxFile(str(network)), given(x=x))
    output = found.output("y")
    assert not found.problem and output is not None and not output.distrust
    assert output.spread is not None and output.reference is not None
    assert 1e-9 < float(output.spread.max()) < 1e-5


def test_noise_leaves_the_file_and_its_inputs_alone(tmp_path: Path) -> None:
    """Identity hands its argument on: noise on what follows must not reach the constant."""
    nodes = [
        helper.make_node("Identity", ["k"], ["a"]),
        helper.make_node("HardSwish", ["a"], ["b"]),
        helper.make_node("Add", ["x", "b"], ["y"]),
    ]
    path = saved(tmp_path / "m.onnx", nodes, {"x": [3]}, ["y"], {"k": np.ones(3, np.float32)})
    runner = runner_of(OnnxFile(str(path)), given(x=torch.ones(3)), 0)
    before = runner.run(Call.make)["y"]

    def spoil(call: Call) -> Any:
        result = call.make()
        result.mul_(7.0)
        return result

    runner.run(spoil)
    assert torch.equal(runner.run(Call.make)["y"], before)


def test_branches_are_run_as_they_are(tmp_path: Path) -> None:
    def branch(operator: str) -> Any:
        out = helper.make_tensor_value_info("r", TensorProto.FLOAT, [2])
        return helper.make_graph([helper.make_node(operator, ["x"], ["r"])], operator, [], [out])

    nodes = [
        helper.make_node("ReduceSum", ["x"], ["s"], keepdims=0),
        helper.make_node("Greater", ["s", "zero"], ["c"]),
        helper.make_node("If", ["c"], ["y"], then_branch=branch("Exp"), else_branch=branch("Neg")),
    ]
    path = saved(tmp_path / "m.onnx", nodes, {"x": [2]}, ["y"], {"zero": np.float32(0)})
    for x in (torch.tensor([1.0, 2.0]), torch.tensor([-1.0, -2.0])):
        runner = runner_of(OnnxFile(str(path)), given(x=x), 0)
        expected = x.double().exp() if x.sum() > 0 else -x.double()
        assert torch.allclose(runner.run(Call.make, wide=True)["y"], expected, rtol=1e-12)


def test_every_operator_that_is_alike_exists_on_both_sides() -> None:
    from mindgap.program import ops

    known = {schema.name for schema in onnx.defs.get_all_schemas()}
    assert set(ALIKE) <= known
    assert all(ops.resolve(name) is not None for name in ALIKE.values())


def test_no_noise_in_scales_that_a_shape_is_made_from(tmp_path: Path) -> None:
    """4 times 0.75 is 3, and a little less would be 2."""
    node = helper.make_node("Resize", ["x", "", "scales"], ["y"], mode="cubic")
    scales = np.array([1.0, 1.0, 0.75, 0.75], dtype=np.float32)
    path = saved(tmp_path / "resize.onnx", [node], {"x": [1, 1, 4, 4]}, ["y"], {"scales": scales})
    found = survey(OnnxFile(str(path)), given(x=torch.arange(16.0).reshape(1, 1, 4, 4))).output("y")
    assert found is not None and not found.distrust


def test_what_makes_float32_by_default_is_float64_in_the_reference_and_a_window_has_noise(tmp_path: Path) -> None:
    """The terms of a window cancel at its ends."""
    nodes = [
        helper.make_node("BlackmanWindow", ["n"], ["w"], periodic=0),
        helper.make_node("ConstantOfShape", ["shape"], ["zeros"]),
        helper.make_node("Sum", ["w", "x", "zeros"], ["y"]),
    ]
    constants = {"n": np.int64(10), "shape": np.array([10])}
    path = saved(tmp_path / "m.onnx", nodes, {"x": [10]}, ["y"], constants)
    output = survey(OnnxFile(str(path)), given(x=torch.zeros(10))).output("y")
    assert output is not None and not output.distrust and output.spread is not None
    assert float(output.spread[0]) > 1e-8


def test_a_recurrence_and_a_transform_round_by_the_size_of_their_whole_result(tmp_path: Path) -> None:
    """A gate that is nearly 1 keeps a state that is nearly 0; a constant signal has one frequency."""
    nodes = [
        helper.make_node("GRU", ["x", "w", "r", "b"], ["", "state"], hidden_size=1),
        helper.make_node("DFT", ["signal"], ["spectrum"], axis=1),
    ]
    constants = {
        "w": np.array([[[9.0], [1.0], [1.0]]], np.float32),
        "r": np.zeros((1, 3, 1), np.float32),
        "b": np.array([[7.0, 0, 0, 0, 0, 0]], np.float32),
        "signal": np.ones((1, 6, 1), np.float32),
    }
    path = saved(tmp_path / "m.onnx", nodes, {"x": [2, 2, 1]}, ["state", "spectrum"], constants)
    x = torch.tensor([[[1.0], [-1.0]], [[1.0], [-1.0]]])
    found = survey(OnnxFile(str(path)), given(x=x))
    assert not found.problem, found.problem
    state, spectrum = found.output("state"), found.output("spectrum")
    assert state is not None and state.spread is not None and state.reference is not None
    assert spectrum is not None and spectrum.spread is not None
    assert abs(float(state.reference.flatten()[0])) < 1e-6 and float(state.spread.flatten()[0]) > 1e-8
    assert float(spectrum.spread.min()) > 1e-8


def test_a_cast_that_saturates_is_not_one_that_overflows(tmp_path: Path) -> None:
    node = helper.make_node("Cast", ["x"], ["y"], to=TensorProto.FLOAT8E5M2)
    path = saved(tmp_path / "m.onnx", [node], {"x": [2]}, ["y"])
    known = survey(OnnxFile(str(path)), given(x=torch.tensor([1e6, 1.0])))
    right, wrong = (torch.tensor([most, 1.0]).to(torch.float8_e5m2) for most in (57344.0, torch.inf))
    found = judge(ok("eager", right), [ok("c", wrong)], known)["c"].verdict
    assert found.conclusion in (Conclusion.DIVERGES, Conclusion.UNJUDGED), found

"""The smallest set of passes that restores agreement, found by halves."""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any, cast

import pytest

from mindgap.platforms.ladder import Passes
from mindgap.platforms.onnx.optimisers import OPTIMISERS
from mindgap.platforms.torch.layers import PASSES as INDUCTOR
from mindgap.tracing.ladder import Answer, _named_passes, _smallest, _Trials

NAMES = tuple(f"pass{number}" for number in range(17))
PASSES = Passes("passes", "disabled", NAMES, "optimiser", "run(model, disabled={names})")


class Asked:
    """A runtime that agrees when all of these are off."""

    def __init__(self, guilty: set[str] | None) -> None:
        self.guilty = guilty
        self.count = 0

    def asked_quietly(self, options: Mapping[str, Any]) -> Answer:
        self.count += 1
        agrees = self.guilty is not None and self.guilty <= set(options["disabled"])
        return Answer.AGREES if agrees else Answer.DIFFERS


@pytest.mark.parametrize("count", [1, 2, 3, 4])
def test_exactly_the_guilty_ones_are_named(count: int) -> None:
    chance = random.Random(count)
    for _ in range(50):
        guilty = set(chance.sample(NAMES, count))
        runtime = Asked(guilty)
        assert set(_smallest(PASSES, cast(_Trials, runtime))) == guilty
        assert runtime.count < 60


def test_nothing_is_named_where_nothing_helps() -> None:
    assert _smallest(PASSES, cast(_Trials, Asked(None))) == ()
    assert _named_passes(PASSES, ()) == ""
    assert _named_passes(PASSES, ["pass3"]) == "run(model, disabled=['pass3'])"


def test_names_are_listed_once() -> None:
    assert len(OPTIMISERS.names) == len(set(OPTIMISERS.names)) > 50


def test_inductor_has_the_passes() -> None:
    from torch._inductor import config

    assert all(isinstance(getattr(config, name), bool | str) for name in INDUCTOR.names)
    with config.patch(dict.fromkeys(INDUCTOR.names, False)):
        assert not config.pattern_matcher


def test_onnx_runtime_takes_the_names() -> None:
    """A fusion that is switched off by its name leaves its operators alone."""
    onnxruntime = pytest.importorskip("onnxruntime")
    onnx = pytest.importorskip("onnx")
    from onnx import TensorProto, helper

    shape = [2, 2]
    given = [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name in ("a", "b")]
    constant = helper.make_tensor("c", TensorProto.FLOAT, [2], [1.0, 2.0])
    made = helper.make_tensor_value_info("y", TensorProto.FLOAT, shape)
    nodes = [helper.make_node("MatMul", ["a", "b"], ["m"]), helper.make_node("Add", ["m", "c"], ["y"])]
    graph = helper.make_graph(nodes, "g", given, [made], [constant])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)

    def operators(*disabled: str) -> list[str]:
        import tempfile

        with tempfile.NamedTemporaryFile(suffix=".onnx") as file:
            options = onnxruntime.SessionOptions()
            options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_BASIC
            options.optimized_model_filepath = file.name
            onnxruntime.InferenceSession(
                model.SerializeToString(), options, providers=["CPUExecutionProvider"],
                **({"disabled_optimizers": list(disabled)} if disabled else {}),
            )  # fmt: skip
            return [node.op_type for node in onnx.load(file.name).graph.node]

    fused, apart = operators(), operators("MatMulAddFusion")
    assert fused == ["Gemm"] and apart == ["MatMul", "Add"]
    assert "MatMulAddFusion" in OPTIMISERS.names

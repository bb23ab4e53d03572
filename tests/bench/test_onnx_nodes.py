"""The table of ONNX's node tests: passed, wrong or refused by the standard, next to the verdict."""

from __future__ import annotations

import functools

import numpy as np
import pytest
import torch

from mindgap.bench.onnx_nodes import NOT_ASKED, PASSED, REFUSED, WRONG, _close, _result, _rows, _tensor, _tests
from mindgap.records.check import PlatformResult
from mindgap.records.outcome import Outcome, Stage, Status
from mindgap.records.platform import Probe
from mindgap.records.tensors import NamedTensor
from mindgap.records.verdict import Conclusion, Verdict

CLOSE = functools.partial(_close, rtol=1e-3, atol=1e-7)


def found(tensor: torch.Tensor | None) -> PlatformResult:
    verdict = Verdict("onnxruntime", Conclusion.AGREES, "said")
    if tensor is None:
        return PlatformResult(
            Outcome("onnxruntime", Status.UNSUPPORTED, Stage.COMPILE, "no kernel"), verdict, Probe(True)
        )
    outcome = Outcome("onnxruntime", Status.OK, Stage.RUN, outputs=(NamedTensor("y", tensor),))
    return PlatformResult(outcome, verdict, Probe(True))


@pytest.mark.parametrize(
    ("given", "result"),
    [
        (torch.tensor([1.0, float("nan")]), PASSED),
        (torch.tensor([1.0005, float("nan")]), PASSED),
        (torch.tensor([1.1, float("nan")]), WRONG),
        (torch.tensor([[1.0], [float("nan")]]), WRONG),
        (None, REFUSED),
    ],
)
def test_a_result_is_what_the_standard_expects_or_not(given: torch.Tensor | None, result: str) -> None:
    told = _result(found(given), {"y": torch.tensor([1.0, float("nan")])}, CLOSE)
    assert told["result"] == result
    assert told["said"] == ("no kernel" if given is None else "said")


def test_values_of_a_test_are_tensors_of_any_type_that_torch_has() -> None:
    onnx = pytest.importorskip("onnx")
    narrow = onnx.helper.make_tensor("x", onnx.TensorProto.BFLOAT16, [2], [1.0, 2.0])
    assert torch.equal(_tensor(narrow), torch.tensor([1.0, 2.0], dtype=torch.bfloat16))
    assert _tensor(np.float32(3.0)).shape == ()
    for value in (["list"], np.array(["text"]), onnx.helper.make_tensor("x", onnx.TensorProto.INT4, [2], [1, 2])):
        with pytest.raises(TypeError):
            _tensor(value)


def test_counts_by_result_and_verdict() -> None:
    rows = [{"onnxruntime": {"result": PASSED, "verdict": "agrees"}}] * 2
    rows += [{"onnxruntime": {"result": NOT_ASKED, "verdict": ""}}]
    assert _rows("onnxruntime", rows) == [
        {"platform": "onnxruntime", "expected outputs": NOT_ASKED, "mindgap says": "-", "tests": 1},
        {"platform": "onnxruntime", "expected outputs": PASSED, "mindgap says": "agrees", "tests": 2},
    ]


def test_the_standards_tests_are_in_its_package() -> None:
    pytest.importorskip("onnx")
    tests = _tests()
    assert len(tests) > 1000 and tests[0].data_sets

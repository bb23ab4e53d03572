"""The table of ONNX's node tests: passed, wrong or refused by the standard, next to the verdict."""

from __future__ import annotations

import functools

import numpy as np
import pytest
import torch

from mindgap.bench.onnx_nodes import NOT_ASKED, PASSED, REFUSED, WRONG, _close, _result, _rows, _tests
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
    told = _result(found(given), {"y": np.array([1.0, np.nan], np.float32)}, CLOSE)
    assert told["result"] == result
    assert told["said"] == ("no kernel" if given is None else "said")


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

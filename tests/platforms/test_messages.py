from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from mindgap.platforms.messages import LIMIT, first_cause

OPENVINO = """Check 'false' failed at src/frontends/common_translators/src/unconverted_ops_report.cpp:151:
FrontEnd API failed with OpConversionFailure:
Model wasn't fully converted.
Summary:
-- No conversion rule found for operations: aten._fft_r2c.default
"""
OPENVINO_KERNEL = """Exception from src/inference/src/cpp/core.cpp:117:
Check 'newNode' failed at src/plugins/intel_cpu/src/node.cpp:1626:
Unsupported operation of type: ConvertLike name: mul/aten.mul.Tensor/ConvertLike
Details:
Not Implemented:
Cannot fallback on ngraph reference implementation.
"""
OPENVINO_DETAILS = """Check 'false' failed at src/frontends/common_translators/src/unconverted_ops_report.cpp:151:
FrontEnd API failed with OpConversionFailure:
Model wasn't fully converted. Failed operations detailed log:
-- aten.var.correction with a message:
Exception happened during conversion of operation var/aten.var.correction with schema NONE
Check '(correction == 1)' failed at src/frontends/pytorch/src/op/var_mean.cpp:53:
FrontEnd API failed with OpConversionFailure:
[PyTorch Frontend] Unexpected value of correction.

Summary:
-- Conversion is failed for: aten.var.correction
"""
ONNX = """Failed to convert the exported program to an ONNX model. \x1b[96mThis is step 3/3\x1b[0m of exporting
- If there is a missing ONNX function, implement it and register it to the registry.

## Exception summary

<class 'torch.onnx._internal.exporter._errors.DispatchError'>: No ONNX function found for \
<OpOverload(op='aten._linalg_eigh', overload='default')>. Failure message: none
⬆️
"""
ONNXRUNTIME = "[ONNXRuntimeError] : 9 : NOT_IMPLEMENTED : Could not find an implementation for Add(14) node 'add'"
DYNAMO = """RuntimeError when making fake tensor call
  Explanation: Dynamo failed to run FX node with fake tensors: call_function f(x): got RuntimeError('a and b differ')
  Hint: Your code may result in an error when running in eager.

  Developer debug context:

from user code:
   File "/home/somebody/model.py", line 3, in forward
"""


def test_the_line_that_names_the_fault() -> None:
    expected = {
        OPENVINO: "No conversion rule found for operations: aten._fft_r2c.default",
        OPENVINO_KERNEL: "Unsupported operation of type: ConvertLike name: mul/aten.mul.Tensor/ConvertLike",
        OPENVINO_DETAILS: "aten.var.correction: Unexpected value of correction.",
        ONNX: "No ONNX function found for aten._linalg_eigh.default. Failure message: none",
        ONNXRUNTIME: "NOT_IMPLEMENTED: Could not find an implementation for Add(14) node 'add'",
        DYNAMO: "a and b differ",
        "cannot open /home/me/.cache/x/model.bin at 0x7f00deadbeef": "cannot open model.bin at 0x…",
        "aten/mul and a/b stay": "aten/mul and a/b stay",
    }
    assert {text: first_cause(RuntimeError(text)) for text in expected} == expected


def test_the_innermost_cause_counts() -> None:
    try:
        try:
            raise ValueError("the kernel is missing")
        except ValueError as inner:
            raise RuntimeError("conversion failed") from inner
    except RuntimeError as error:
        assert first_cause(error) == "the kernel is missing"


def test_a_message_of_one_word_gets_its_type() -> None:
    assert first_cause(KeyError("x")) == "KeyError: 'x'"
    assert first_cause(AssertionError()) == "AssertionError"


@given(st.text(), st.text())
def test_always_one_short_line(outer: str, inner: str) -> None:
    error = RuntimeError(outer)
    error.__cause__ = ValueError(inner)
    text = first_cause(error)
    assert text and len(text) <= LIMIT and len(text.splitlines()) == 1
    assert "\x1b[" not in text

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mindgap.execution.serve import load_adapter
from mindgap.platforms.messages import LIMIT, NO_RULES, MessageRules, first_cause
from mindgap.platforms.onnx.onnxruntime import OnnxRuntime
from mindgap.platforms.registry import resolve
from mindgap.platforms.torch.messages import TORCH

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


@pytest.mark.parametrize(
    ("platform", "text", "expected"),
    [
        ("openvino", OPENVINO, "No conversion rule found for operations: aten._fft_r2c.default"),
        (
            "openvino",
            OPENVINO_KERNEL,
            "Unsupported operation of type: ConvertLike name: mul/aten.mul.Tensor/ConvertLike",
        ),
        (
            "openvino",
            "FrontEnd API failed with GeneralFailure:\nTensor name is not a number: linear\n",
            "it cannot return a value twice, not even a copy of it as well (Tensor name is not a number)",
        ),
        ("openvino", OPENVINO_DETAILS, "aten.var.correction: Unexpected value of correction."),
        ("onnx-reference", ONNX, "No ONNX function found for aten._linalg_eigh.default. Failure message: none"),
        ("onnxruntime", ONNX, "No ONNX function found for aten._linalg_eigh.default. Failure message: none"),
        ("onnxruntime", ONNXRUNTIME, "NOT_IMPLEMENTED: Could not find an implementation for Add(14) node 'add'"),
        ("inductor", DYNAMO, "a and b differ"),
        ("eager", DYNAMO, "a and b differ"),
    ],
)
def test_each_runtime_knows_the_line_that_names_the_fault(platform: str, text: str, expected: str) -> None:
    assert load_adapter(resolve(platform)).message_of(RuntimeError(text)) == expected


def test_what_holds_for_every_runtime() -> None:
    expected = {
        "cannot open /home/me/.cache/x/model.bin at 0x7f00deadbeef": "cannot open model.bin at 0x…",
        "aten/mul and a/b stay": "aten/mul and a/b stay",
        "it began well\nand then: not implemented": "and then: not implemented",
    }
    assert {text: first_cause(RuntimeError(text)) for text in expected} == expected


def test_rules_add_up() -> None:
    first = MessageRules(rewrites=(("a", "b"),), telling=("x",))
    both = first + MessageRules(rewrites=(("b", "c"),), noise=("note",), telling=("y",))
    assert first_cause(RuntimeError("note: y\nsaid y a\nsaid x a"), both) == "scid x c"
    assert first_cause(RuntimeError("kept a"), first) == "kept b"


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


@given(st.text(), st.text(), st.sampled_from([NO_RULES, TORCH, OnnxRuntime.message_rules]))
def test_always_one_short_line(outer: str, inner: str, rules: MessageRules) -> None:
    error = RuntimeError(outer)
    error.__cause__ = ValueError(inner)
    text = first_cause(error, rules)
    assert text and len(text) <= LIMIT and len(text.splitlines()) == 1
    assert "\x1b[" not in text

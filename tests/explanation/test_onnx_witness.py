"""The text of an issue about an ONNX file: under the headings of whoever is wrong."""

from __future__ import annotations

import pytest

from mindgap.explanation.issue import Asked
from mindgap.explanation.onnx_witness import onnx_issue
from mindgap.platforms.registry import resolve
from mindgap.records.verdict import Blame, Conclusion, Verdict


@pytest.mark.parametrize(
    ("blame", "title", "headings", "due"),
    [
        (Blame.CANDIDATE, "# onnxruntime: ONNX Tan", ["Describe the issue", "To reproduce"], "ONNX's reference"),
        (
            Blame.EAGER,
            "# onnx-reference: ONNX Tan",
            ["Is the issue related to model conversion?", "Describe the bug", "Expected behavior",
             "Reproduction instructions", "System information"],
            "The result of onnxruntime, with which float64 agrees",
        ),
    ],
)  # fmt: skip
def test_an_issue_goes_to_whoever_is_wrong(blame: Blame, title: str, headings: list[str], due: str) -> None:
    verdict = Verdict("onnxruntime", Conclusion.DIVERGES, "y is 1", blame=blame)
    text = onnx_issue(resolve("onnxruntime"), "Tan", verdict, "", "DIFFERS", Asked(), {"onnx": "1.23.2"})
    assert text.startswith(title) and due in text
    assert [text.index(f"## {heading}\n") for heading in headings] == sorted(
        text.index(f"## {heading}\n") for heading in headings
    )

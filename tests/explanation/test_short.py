"""The script that opens an issue: at most 15 lines, pasted into a fresh process it shows the difference."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from mindgap.execution.pool import Pool
from mindgap.explanation.issue import Asked, issue_text
from mindgap.explanation.reproducer import Reproducer
from mindgap.explanation.short import MOST_LINES, is_eager_wrong, short_script, tried
from mindgap.platforms.registry import resolve
from mindgap.records.explanation import Cause, CauseKind, Layer
from mindgap.records.platform import PlatformSpec
from mindgap.records.verdict import Blame, WrongElement
from mindgap.tracing.cause import find_cause
from mindgap.tracing.examine import Examiner
from mindgap.tracing.experiments import ROUND_TRIPS
from mindgap.tracing.readings import read
from tests.tracing.witnesses import witness_of


def test_a_known_difference_of_onnx_runtime_in_fifteen_lines(pool: Pool, tmp_path: Path) -> None:
    """Its sigmoid is 0 far below zero."""
    pytest.importorskip("onnxruntime")
    spec = resolve("onnxruntime")
    witness = witness_of(torch.sigmoid, torch.tensor([-20.0, -30.0]))
    found = Examiner(pool, resolve("eager"), spec).examine(witness)
    assert found.symptom is not None
    text = short_script(witness, found, spec)
    assert 0 < len(text.splitlines()) <= MOST_LINES and "mindgap" not in text
    short = tried(text, True, 900.0)
    assert short.shows, text
    assert not tried(text.replace("-20.0, -30.0", "-1.0, 1.0"), True, 900.0).shows, "nothing to show for other values"
    issue = issue_text(
        spec, "1", witness, found, Cause(CauseKind.IMPLEMENTATION), Reproducer(tmp_path, "", True, "DIFFERS"), {}, short
    )
    opening = issue.splitlines()[2 : 2 + MOST_LINES + 1]
    assert opening[0] == "```python" and opening[1] == "import torch, torch.nn.functional as F"
    assert "float64 agrees with it" in issue


def test_a_write_to_an_input_is_shown_on_a_copy(pool: Pool) -> None:
    pytest.importorskip("onnxruntime")
    spec = resolve("onnxruntime")
    witness = witness_of(lambda x: x.sigmoid_(), torch.tensor([-20.0, -30.0]))
    found = Examiner(pool, resolve("eager"), spec).examine(witness)
    text = short_script(witness, found, spec)
    assert "x = x.clone()" in text and tried(text, True, 900.0).shows, text
    assert not tried(text.replace("-20.0, -30.0", "-1.0, 1.0"), True, 900.0).shows, "nothing to show for other values"


def test_a_check_that_a_platform_lost_in_fifteen_lines(pool: Pool) -> None:
    """ONNX Runtime takes a target that torch refuses."""
    pytest.importorskip("onnxruntime")
    spec = resolve("onnxruntime")
    witness = witness_of(lambda x: torch.nn.functional.binary_cross_entropy(x, x + 0.0), torch.tensor([0.5]))
    witness = witness.with_tensors([torch.tensor([1.5])])
    found = Examiner(pool, resolve("eager"), spec).examine(witness)
    assert found.candidate.ok and not found.eager.ok and found.symptom is not None
    text = short_script(witness, found, spec)
    assert 0 < len(text.splitlines()) <= MOST_LINES
    assert tried(text, True, 900.0).shows, text
    assert not tried(text.replace("1.5", "0.5"), True, 900.0).shows, "torch takes that"


def test_where_eager_is_wrong_too_float64_is_what_is_due(pool: Pool, tmp_path: Path) -> None:
    spec = resolve("eager@scalar")
    witness = witness_of(lambda x: x * 2, torch.tensor([1.0, 2.0]))
    found = Examiner(pool, resolve("eager"), spec).examine(witness)
    element = WrongElement("output[0]", "3", "nan", "2", 9e9)
    wrong = replace(found, verdict=replace(found.verdict, blame=Blame.BOTH, elements=(element,)))
    assert is_eager_wrong(wrong) and not is_eager_wrong(found)
    text = short_script(witness, wrong, spec)
    assert "model.double()" in text and "ATEN_CPU_CAPABILITY" in text.splitlines()[0]
    rungs = (("dynamo", "agrees"), ("inductor", "differs"), ("precision casts emulated", "differs"))
    layer = Layer("inductor", "inductor brings it in", rungs=rungs, cures=("config.patch({})",))
    asked = Asked(layer, 3, ("nightly (2.15.0): agrees",))
    script = Reproducer(tmp_path, "", True, "DIFFERS")
    issue = issue_text(spec, "1", witness, wrong, Cause(CauseKind.IMPLEMENTATION), script, {}, asked=asked)
    assert "- seen in 3 of 3 fresh processes" in issue and "- another version: nightly (2.15.0): agrees" in issue
    assert "dynamo agrees; inductor differs; precision casts emulated differs" in issue
    assert "- `config.patch({})`" in issue.partition("## What restores agreement")[2]
    assert "torch eager is wrong too" in issue and "is 2 in float64, nan in torch eager and 3 here" in issue


def test_a_remark_is_about_who_is_wrong(pool: Pool) -> None:
    """`gives a number where NaN is due` would be a lie where float64 gives that number."""
    witness = witness_of(lambda x: x * 2, torch.tensor([1.0, 2.0]))
    found = Examiner(pool, resolve("eager"), resolve("eager@scalar")).examine(witness)
    nan = replace(found.eager.outputs[0], tensor=torch.tensor([float("nan"), 4.0]))
    from mindgap.records.verdict import Conclusion
    from mindgap.verdicts.comparison import Comparison

    wrong = Comparison("output", Conclusion.DIVERGES, wrong=1)
    seen = replace(found, eager=replace(found.eager, outputs=(nan,)), comparisons={"output": wrong})
    seen = replace(seen, verdict=replace(found.verdict, blame=Blame.CANDIDATE))
    assert read(seen) == "gives a number where NaN is due"
    assert read(replace(seen, verdict=replace(seen.verdict, blame=Blame.EAGER))) == (
        "torch eager gives NaN where a number is due"
    )
    assert read(replace(seen, verdict=replace(seen.verdict, blame=Blame.BOTH))) == ""


def test_a_cast_that_a_platform_leaves_out_is_precision_policy(pool: Pool) -> None:
    """A platform that keeps the value which a round trip through float8 would have rounded."""

    def round_trip(x: torch.Tensor) -> torch.Tensor:
        return x.to(torch.float8_e4m3fn).to(torch.float32) * 3.0

    witness = witness_of(round_trip, torch.tensor([0.3, 1.7, 2.9]))
    lenient = PlatformSpec("lenient", "tests.explanation.lenient:Lenient")
    examiner = Examiner(pool, resolve("eager"), lenient)
    found = examiner.examine(witness)
    assert found.symptom is not None, found.verdict
    cause = find_cause(examiner, witness, found, found.symptom, None)
    assert cause.kind is CauseKind.PRECISION and ROUND_TRIPS in cause.vanishes, cause


def test_a_witness_that_takes_more_has_no_short_script(pool: Pool) -> None:
    spec = resolve("inductor")
    large = witness_of(lambda x: x + 1, torch.randn(20, 20))
    found = Examiner(pool, resolve("eager"), resolve("eager@scalar")).examine(large)
    assert short_script(large, found, spec) == "", "its data do not fit"
    assert not tried("", True, 10.0).shows
    assert not tried("import torch\n", True, 0.0).shows

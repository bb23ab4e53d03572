"""Grades from a ledger, and the spot checks against facts: what platforms really do with an operator."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from mindgap.campaign.reader import open_ledger, read_case
from mindgap.errors import UsageError
from mindgap.operators.answering import declared_answer, with_observed
from mindgap.operators.document import changes, document, read_baseline, table
from mindgap.operators.observed import Cell, Grade, Observed, _cell, blocking, grade_of, read_sweep, shares
from mindgap.operators.observed import _Invocation as Row
from mindgap.operators.sweeping import sweep
from mindgap.operators.universe import models_of
from mindgap.report.console import save_json
from mindgap.report.operators import page, sections

OPS = (
    "aten.floor_divide.default", "aten.sub.Scalar", "aten.conv2d.default", "aten.neg.default",
    "aten.layer_norm.default",
)  # fmt: skip
KINDS = ("ordinary", "weight float32")


def row(status: str = "ok", stage: str = "run", conclusion: str | None = None, **more: object) -> Row:
    given = {"eager_ran": True, "kind": None, "blame": None, "sentence": "", "again": 0, "note": "", **more}
    return Row(number=1, status=status, stage=stage, message="said", conclusion=conclusion, **given)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("given", "grade"),
    [
        (row(conclusion="agrees"), Grade.AGREES),
        (row(conclusion="rounding"), Grade.ROUNDING),
        (row(conclusion="hazard"), Grade.HAZARD),
        (row(conclusion="diverges", kind="value", blame="candidate"), Grade.WRONG),
        (row(conclusion="diverges", kind="value", blame="eager"), Grade.HAZARD),
        (row(conclusion="diverges", kind="validation", eager_ran=False), Grade.ACCEPTS_INVALID),
        (row(conclusion="unstable"), Grade.UNSTABLE),
        (row(conclusion="unjudged"), Grade.UNJUDGED),
        (row("unsupported", "convert", "failed"), Grade.NOT_CONVERTIBLE),
        (row("unsupported", "compile", "failed"), Grade.UNSUPPORTED),
        (row("error", "compile", "failed"), Grade.COMPILE_ERROR),
        (row("error", "run", "failed"), Grade.REJECTS_VALID),
        (row("rejected", "run", "failed"), Grade.REJECTS_VALID),
        (row("rejected", "run", "agrees", eager_ran=False), None),
        (row("crash", "run", "failed", eager_ran=False), Grade.CRASH),
        (row("timeout", "compile", "failed"), Grade.HANG),
        (row("oom", "run", "failed"), Grade.OUT_OF_MEMORY),
    ],
)
def test_every_outcome_has_a_grade(given: Row, grade: Grade | None) -> None:
    assert grade_of(given) is grade


def test_a_limit_by_the_clock_says_nothing_about_the_platform() -> None:
    late = replace(row("timeout", "compile", "failed"), message="no answer within 360 s")
    assert _cell([late]).grade is Grade.NOT_EXERCISED and "360" in _cell([late]).message
    assert _cell([late, row(conclusion="agrees")]).grade is Grade.AGREES


def test_what_goes_wrong_on_exceptional_values_only_is_told() -> None:
    good, wrong = row(conclusion="agrees"), row(conclusion="diverges", kind="value", blame="candidate")
    special = replace(wrong, is_special=True)
    assert _cell([good, special]).only_exceptional and _cell([good, special]).grade is Grade.WRONG
    assert not _cell([good, special, wrong]).only_exceptional and not _cell([good]).only_exceptional


def test_what_ran_elsewhere_is_read_from_its_share() -> None:
    note = "25% of its operators ran on its CPU provider"
    cell = _cell([row(conclusion="agrees"), row(conclusion="agrees", note=note, fallback=0.25)])
    assert cell.runs_elsewhere == note
    assert not _cell([row(conclusion="agrees", note="it falls back to nothing", fallback=0.0)]).runs_elsewhere


def test_a_confirmed_invocation_is_the_worst_of_its_grade() -> None:
    wrong = row(conclusion="diverges", kind="value", blame="candidate")
    cell = _cell([wrong, replace(wrong, number=7, again=1)])
    assert (cell.worst, cell.confirmed) == (7, True)


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Four operators on two runtimes, in two dtypes."""
    pytest.importorskip("onnxruntime")
    pytest.importorskip("openvino")
    folder = tmp_path_factory.mktemp("ops") / "sweep"
    ending = sweep(folder, ["onnxruntime", "openvino"], OPS, ["int64", "bfloat16"], kinds=KINDS)
    assert ending.complete
    yield folder


@pytest.fixture(scope="module")
def found(directory: Path) -> Observed:
    return read_sweep(directory)


def test_integer_floor_division_rounds_wrongly_on_openvino(found: Observed, directory: Path) -> None:
    cell = found.cell("openvino", "aten.floor_divide.default", "int64")
    assert cell.invocations.get(Grade.WRONG.value, 0) > 0
    assert found.cell("onnxruntime", "aten.floor_divide.default", "int64").grade is not Grade.WRONG


def test_bfloat16_convolution_is_refused_by_onnxruntime(found: Observed) -> None:
    cell = found.cell("onnxruntime", "aten.conv2d.default", "bfloat16")
    assert cell.grade in (Grade.UNSUPPORTED, Grade.NOT_CONVERTIBLE) and cell.message


def test_subtracting_a_number_is_not_convertible_on_openvino(found: Observed) -> None:
    cell = found.cell("openvino", "aten.sub.Scalar", "int64")
    assert cell.grade is Grade.NOT_CONVERTIBLE and "aten.sub.Scalar" in cell.message


def test_another_dtype_in_one_role_has_a_cell_of_its_own(found: Observed) -> None:
    for platform in ("onnxruntime", "openvino"):
        (key,) = found.by_role(platform)
        assert key == ("aten.layer_norm.default", "bfloat16, weight float32")
    assert all(", " not in share.dtype for share in shares(found, {}))


def test_accepting_invalid_input_does_not_make_an_operator_unsupported() -> None:
    assert Grade.ACCEPTS_INVALID.is_supported and not Grade.WRONG.is_supported
    assert not Cell(Grade.UNSUPPORTED, {"accepts invalid input": 1, "unsupported": 2}).ran
    assert Cell(Grade.WRONG, {"wrong": 1, "agrees bitwise": 2}).ran


def test_only_some_operators_are_looked_at(found: Observed) -> None:
    few = found.only(["aten.neg.default"])
    assert {op for _, op, _ in few.cells} == {"aten.neg.default"} and few.sweep.operators == ("aten.neg.default",)


def test_a_wrong_cell_keeps_its_invocation(found: Observed, directory: Path) -> None:
    cell = found.cell("openvino", "aten.sub.Scalar", "int64")
    assert cell.worst is not None
    with open_ledger(directory) as data:
        case = read_case(data, directory, cell.worst)
    assert case is not None and [node.op for node in case.graph.nodes] == ["aten.sub.Scalar"]


def test_running_again_continues_and_changes_nothing(found: Observed, directory: Path) -> None:
    ending = sweep(directory, ["onnxruntime", "openvino"], OPS, ["int64", "bfloat16"], kinds=KINDS)
    assert ending.complete and ending.written == 0
    assert read_sweep(directory).cells == found.cells
    with pytest.raises(UsageError, match="another"):
        sweep(directory, ["onnxruntime"], OPS[:1], ["int64"], kinds=KINDS)


def test_shares_count_only_what_eager_runs(found: Observed) -> None:
    by_name = {(share.platform, share.dtype): share for share in shares(found, {"aten.neg.default": 7})}
    share = by_name["openvino", "int64"]
    assert 0 < share.supported < share.exercised <= len(OPS) and share.supported <= share.running < share.exercised
    assert share.needed == share.needed_supported == 7 and 0 < share.fewer_percent < 100 > share.supported_percent
    assert blocking(found, "openvino", {"aten.sub.Scalar": 3})[0][0] == "aten.sub.Scalar"


def test_an_answer_is_written_and_compared(directory: Path, tmp_path: Path) -> None:
    answer = with_observed(declared_answer(["onnxruntime", "openvino"], models_of()), directory)
    path = tmp_path / "ops.json"
    save_json(path, document(answer))
    earlier = read_baseline(path)
    assert changes(earlier, document(answer)) == []
    for cell in earlier["observed"]["cells"]:
        if (cell["platform"], cell["operator"]) == ("openvino", "aten.sub.Scalar"):
            cell["grade"] = Grade.AGREES.value
    worse = changes(earlier, document(answer))
    assert worse and all(c.is_worse and c.operator == "aten.sub.Scalar" and c.evidence == "observed" for c in worse)
    text = table(answer)
    assert text.count("\n") > 5000 and "observed,openvino,aten.sub.Scalar,int64,not convertible" in text
    assert "not convertible" in page(answer, "mindgap ops") and len(list(sections(answer))) >= 4


@pytest.mark.parametrize("content", ["{}", "[]", "no json", '{"schema": "mindgap.ops/1", "declared": 7}'])
def test_a_file_that_is_no_result_is_no_baseline(tmp_path: Path, content: str) -> None:
    path = tmp_path / "old.json"
    path.write_text(content)
    with pytest.raises(UsageError):
        read_baseline(path)

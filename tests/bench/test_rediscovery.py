"""What counts as finding a known defect again."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from mindgap.bench.measurement import Row
from mindgap.bench.rediscovery import Defect, Hunted, known_defects, lines_of, rows_of, signs_of
from mindgap.errors import UsageError
from mindgap.records.finding import Evidence, Finding
from mindgap.records.verdict import Conclusion


def defect(platform: str = "openvino", operator: str = "remainder", kind: str = "integer") -> Defect:
    return Defect("case", platform, "wrong-result", frozenset({operator, "add"}), frozenset({kind}))


def finding(operator: str, *seen: tuple[str, str]) -> Finding:
    evidence = tuple(
        Evidence(number, f"p{number}", 1, "base", platform, Conclusion.DIVERGES, "ok", "run", "", "", kind)
        for number, (platform, kind) in enumerate(seen)
    )
    return Finding("divergence", ("openvino",), seen[0][1], "candidate", operator, "run", "", evidence)


def test_a_finding_shows_a_defect_by_platform_operator_and_kind() -> None:
    signs = dict.fromkeys(signs_of(finding("aten.remainder_.Scalar", ("openvino", "integer"))), 60.0)
    assert signs == {("openvino", "remainder", "integer"): 60.0}
    assert defect().is_shown_by(signs) == 60.0
    assert defect(platform="inductor").is_shown_by(signs) is None
    assert defect(kind="nonfinite").is_shown_by(signs) is None
    assert Defect("case", "openvino", "", frozenset({"fmod"}), frozenset({"integer"})).is_shown_by(signs) is None


def test_operators_that_are_wrong_only_together_count_each_and_nameless_findings_do_not() -> None:
    both = signs_of(finding("aten.add.Tensor + aten.mul.Tensor", ("openvino", "value"), ("inductor", "value")))
    assert both == {(p, op, "value") for p in ("openvino", "inductor") for op in ("add", "mul")}
    assert signs_of(finding("", ("openvino", "value"))) == set()


def test_the_table_and_the_curve() -> None:
    found = Hunted(600.0, 300.0, 1000, {("openvino", "remainder", "integer"): 250.0})
    found.findings = [
        finding("aten.remainder.Scalar", ("openvino", "integer")),
        finding("aten.cos.default", ("openvino", "value")),
    ]
    defects = [defect(), defect("inductor")]
    rows: dict[str, Row] = {row["pairs of"]: row for row in rows_of(defects, found, None)}
    assert rows["openvino"]["found"] == "1/1" and rows["inductor"]["found"] == "0/1" and rows["all"]["found"] == "1/2"
    told = "\n".join(lines_of(defects, found, None))
    assert "1 of 2 pairs found (50%, aim 50%) and 1 further findings" in told
    assert "0 after 3 min, 1 after 5 min" in told and "missed: case on inductor" in told


def test_known_defects_come_with_the_operators_of_the_exported_program(tmp_path: Path) -> None:
    (tmp_path / "c.py").write_text("import torch\ndef model(x): return x % 3\ndef inputs(): return [torch.ones(3)]\n")
    truth = {"observed": {"openvino": "nan pattern"}, "platforms": {"openvino": ["diverges"], "inductor": ["agrees"]}}
    (tmp_path / "truth.json").write_text(json.dumps({"c": {"category": "wrong", **truth}}))
    (found,) = known_defects(lambda who, what: None, [tmp_path])
    assert (found.case, found.platform, found.kinds) == ("c", "openvino", frozenset({"nonfinite"}))
    assert found.operators == {"remainder"}
    with pytest.raises(UsageError, match="cannot be read"):
        known_defects(lambda who, what: None, [tmp_path / "nothing"])

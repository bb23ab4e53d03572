"""A fast subset of `make cases`: one of each kind must get its right verdict, kind and blame."""

from __future__ import annotations

from pathlib import Path

import pytest

from mindgap.bench.cases import Judged, judge_cases, measure
from mindgap.errors import UsageError

CASES = Path(__file__).resolve().parents[2] / "cases"

SUBSET = (
    "001_intmin_floordiv_m1",  # a crash in one runtime
    "011_ceil_add_zero_recip",  # the sign of a zero, amplified to an infinity
    "015_bce_target_range",  # validation lost by a compiler
    "023_int8_bmm_wrap",  # another dtype
    "037_remainder_float_big",  # a wrong value on three platforms
    "051_sort_desc_ties",  # hazard: tie order
    "081_layernorm_offset",  # control: ill-conditioned variance
    "097_dropout_seed",  # hazard: random streams
    "131_cos_floor_half",  # control: intermediate precision
)


@pytest.fixture(scope="module")
def judged() -> list[Judged]:
    return judge_cases(lambda who, what: None, CASES, SUBSET)


def test_every_verdict_is_right(judged: list[Judged]) -> None:
    wrong = [
        (item.case, item.platform, item.verdict, item.right, item.sentence)
        for item in judged
        if not item.accepted and not item.is_absent
    ]
    assert len(judged) == 4 * len(SUBSET) and not wrong


def test_few_known_differences_are_absent_from_this_machine(judged: list[Judged]) -> None:
    absent = [(item.case, item.platform) for item in judged if item.is_absent]
    assert len(absent) <= 1, "kernels differ by instruction set; that many are a fault of the runs"
    assert all(item.verdict == "agrees" for item in judged if item.is_absent)


def test_every_defect_has_its_kind_and_blame(judged: list[Judged]) -> None:
    found = [item for item in judged if item.must_diverge and not item.is_absent]
    assert len(found) >= 7
    assert all(item.kind_right for item in found)
    assert all(item.blame_right for item in found if item.blame_known)


def test_a_verdict_explains_itself(judged: list[Judged]) -> None:
    for item in judged:
        assert item.verdict == "agrees" or len(item.sentence.split()) >= 4, item


def test_a_folder_without_truth_is_said(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cases cannot be read"):
        measure(lambda who, what: None, tmp_path)

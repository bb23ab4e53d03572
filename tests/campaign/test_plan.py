from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mindgap.campaign.known import load_known, recognise
from mindgap.campaign.plan import Plan, eager_of, parse_shares, with_baseline
from mindgap.errors import BadConfig, UsageError


def test_a_plan_survives_writing() -> None:
    plan = Plan(("eager", "inductor"), 10, seed=3, corpus=("smoke:a",), shares={"inductor": 0.05})
    assert Plan.from_text(plan.to_text()) == plan


def test_eager_is_always_first() -> None:
    assert with_baseline(["inductor", "eager", "inductor"]) == ("eager", "inductor")


def test_eager_of_the_same_device() -> None:
    names = ("inductor", "inductor:cuda", "aot_eager", "inductor:cuda:1", "eager:cuda", "openvino:GPU")
    assert [eager_of(name) for name in names] == ["eager", "eager:cuda", "eager", "eager:cuda:1", None, None]


def test_samples() -> None:
    on = ("eager", "inductor", "openvino")
    assert parse_shares(["inductor=5%", "openvino=0.25"], on) == {"inductor": 0.05, "openvino": 0.25}
    for wrong in ("inductor", "inductor=0", "inductor=200%", "tvm=5%", "eager=5%", "inductor=1.2.3%"):
        with pytest.raises(UsageError):
            parse_shares([wrong], on)


@given(st.text(min_size=1, max_size=8), st.floats(0.01, 1), st.floats(0.01, 1))
def test_a_smaller_sample_is_part_of_a_larger_one(fingerprint: str, first: float, second: float) -> None:
    small, large = sorted((first, second))
    plan = Plan(("eager", "a", "b"), 1, shares={"a": small, "b": large})
    assert plan.is_due("eager", fingerprint)
    assert not plan.is_due("a", fingerprint) or plan.is_due("b", fingerprint)


def test_known_findings_are_recognised(tmp_path: Path) -> None:
    file = tmp_path / "known.toml"
    file.write_text('[[known]]\nid = "torch-1"\npattern = "inductor.*aten.tanh"\nlink = "https://example.org/1"\n')
    known = load_known(file)
    found = recognise("divergence | inductor | value | candidate | aten.tanh.default", known)
    assert found is not None and found.id == "torch-1" and isinstance(found.pattern, re.Pattern)
    assert recognise("divergence | openvino | value", known) is None


@pytest.mark.parametrize(
    "text", ["[[known]]\nid = 'x'\n", "[[known]]\nid = 'x'\npattern = '('\n", "known = 3", "not toml"]
)
def test_a_wrong_known_file_is_refused(tmp_path: Path, text: str) -> None:
    file = tmp_path / "known.toml"
    file.write_text(text)
    with pytest.raises(BadConfig):
        load_known(file)

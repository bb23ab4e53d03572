"""Inductor's Triton code, interpreted: what can be tested without triton, and what runs where it is installed."""

from __future__ import annotations

import ast
from collections import Counter
from importlib.util import find_spec
from pathlib import Path

import pytest
import torch

import mindgap
from mindgap.bench.codegen import FOUND, QUIET, plant, with_planted
from mindgap.bench.kernel_faults import FAULTS
from mindgap.execution.serve import load_adapter
from mindgap.platforms.base import Platform, StageFailure
from mindgap.platforms.config import load_config
from mindgap.platforms.probing import probe
from mindgap.platforms.registry import adapter_class, resolve
from mindgap.platforms.torch.interpreted import Tally, is_interpreted, start
from mindgap.records.verdict import Conclusion

NAME = "inductor@triton"


def test_the_tally_says_what_was_left_to_aten() -> None:
    assert Tally(interpreted=1, generated=3).note() == "1 Triton kernel interpreted"
    found = Tally(2, 6, Counter(convolution=2, mm=1))
    assert found.note() == "2 Triton kernels interpreted; left to ATen: convolution x2, mm"
    assert found.fallback().share == 3 / 9 and "eager again" in found.fallback().to
    nothing = Tally(0, 0, Counter(a=1, b=1, c=1, d=1, e=1))
    assert nothing.note() == "no Triton kernels interpreted; left to ATen: a, b, c, d and 1 more"
    assert nothing.fallback().share == 1
    found.clear()
    assert found == Tally() and found.fallback().share == 0


def test_its_name_says_what_it_is_and_what_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MINDGAP_PLATFORMS", str(tmp_path))
    spec = resolve(NAME)
    assert spec.env["TRITON_INTERPRET"] == "1" and is_interpreted(spec.options["inductor"])
    assert "not GPU arithmetic" in spec.summary
    assert spec.install == f"mindgap platforms install {NAME}"
    assert not is_interpreted(None) and not is_interpreted({"cpu_backend": "cpp"})


@pytest.mark.skipif(find_spec("triton") is not None, reason="triton is here")
def test_without_triton_it_says_so() -> None:
    found = load_adapter(resolve(NAME)).probe()
    assert not found.available and found.reason == "triton is not installed"
    with pytest.raises(StageFailure, match="triton is not installed"):
        start()


def test_its_ladder_asks_whether_the_other_code_generator_agrees() -> None:
    spec = resolve(NAME)
    ladder = (adapter_class(spec) or Platform).ladder(spec)
    assert ladder is not None
    names = [knob.name for knob in ladder.knobs]
    assert names[-1] == "C++ instead of Triton" and "vectorisation off" not in names
    assert ladder.knobs[0].options["inductor"]["cpu_backend"] == "triton"
    assert ladder.rungs[-1].is_whole


def test_its_script_brings_the_stand_ins_along() -> None:
    spec = resolve(NAME)
    text = (adapter_class(spec) or Platform).reproducer(spec)
    ast.parse(text.text)
    assert "mindgap" not in text.text and text.packages == ("triton",)
    assert text.text.index("use_stand_ins()\n", text.text.index("def on_platform")) > 0
    assert "'cpu_backend': 'triton'" in text.text


@pytest.fixture(scope="module")
def session():  # type: ignore[no-untyped-def]
    with mindgap.Session(with_planted(load_config(None))) as found:
        answer = probe(found.pool, [resolve(NAME, found.config)])[NAME]
        if not answer.available:
            pytest.skip(answer.reason)
        yield found


@pytest.mark.slow
def test_kernels_are_interpreted_and_counted(session: mindgap.Session) -> None:
    def both(x: torch.Tensor, w: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return torch.softmax(x @ w, -1), (x.bfloat16() * 1.998).float()

    item = session.check(both, [torch.randn(5, 7), torch.randn(7, 3)], [NAME]).platforms[NAME]
    assert item.verdict.conclusion in (Conclusion.AGREES, Conclusion.ROUNDING), item.verdict.sentence
    assert "Triton kernels interpreted; left to ATen: mm" in item.outcome.note
    assert item.outcome.fallback is not None and 0 < item.outcome.fallback < 1


@pytest.mark.slow
def test_planted_faults_are_found(session: mindgap.Session) -> None:
    rows = plant(session, lambda who, what: None)
    faulty = [row for row in rows if not row["subject"].startswith("no fault")]
    assert {row["subject"].split(":")[0] for row in faulty} == set(FAULTS)
    assert all(row["where"] == QUIET for row in rows if row not in faulty), rows
    missed = [row["subject"] for row in faulty if row["where"] != FOUND]
    # Float16 squares without promotion round earlier and stay within what rounding explains.
    assert len(missed) * 5 <= len(faulty), missed

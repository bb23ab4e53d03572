"""A script runs without mindgap, says 1 while the difference exists, and 0 when it is gone."""

from __future__ import annotations

import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import torch
from hypothesis import given
from hypothesis import strategies as st

from mindgap.bench.faults import PLANTED
from mindgap.execution.pool import Pool
from mindgap.explanation.reproducer import LONGEST_OUTPUT, shortened, write_reproducer
from mindgap.platforms.registry import resolve
from mindgap.platforms.versions import versions
from mindgap.tracing.examine import Examiner
from tests.tracing.witnesses import plant, witness_of


def test_a_script_shows_the_difference_until_it_is_gone(examiner: Examiner, tmp_path: Path) -> None:
    x = torch.randn(20, 20)  # too large for literals
    witness, _ = plant(witness_of(lambda x: torch.tanh(x) * 2, x), "aten.tanh", "sign_lost")
    found = examiner.examine(witness)
    spec = replace(PLANTED, options={"fault": "sign_lost", "op": "tanh"})
    made = write_reproducer(tmp_path, witness, found, spec, versions())
    assert made.reproduces and "DIFFERS" in made.said and "float64" in made.said
    assert "torch's same(): False" in made.said
    assert "mindgap" not in made.text and (tmp_path / "repro.pt").exists()
    made.path.write_text(made.text.replace("kwargs).abs()", "kwargs)"))
    done = subprocess.run([sys.executable, made.path], capture_output=True, text=True, check=False)
    assert done.returncode == 0 and "no difference" in done.stdout and "torch's same(): True" in done.stdout


def test_a_refusal_is_shown_from_processes_of_their_own(pool: Pool, tmp_path: Path) -> None:
    witness = witness_of(lambda x, i: x[i], torch.ones(3), torch.tensor([0]))
    witness = witness.with_tensors([torch.ones(3), torch.tensor([7])])
    found = Examiner(pool, resolve("eager"), resolve("eager@scalar")).examine(witness)
    assert not found.eager.ok and found.symptom is None, "both refuse: nothing to explain"


@given(st.lists(st.text(alphabet="ab 1,", max_size=300), min_size=1, max_size=60))
def test_long_output_keeps_whole_lines(lines: list[str]) -> None:
    text = "\n".join(lines).strip()
    shown = shortened(text).splitlines()
    assert len("\n".join(shown)) <= max(LONGEST_OUTPUT, 300) + 40
    kept = [line for line in shown if not line.startswith("... ")]
    assert kept[:-1] == text.splitlines()[: len(kept) - 1] and kept[-1:] == text.splitlines()[-1:]


def test_output_of_large_tensors_starts_with_the_first_and_ends_with_the_result() -> None:
    text = "\n".join(["eager     tensor([[1.0, 2.0],", *["        [3.0, 4.0],"] * 500, "DIFFERS: 12 elements"])
    shown = shortened(text).splitlines()
    assert shown[0].startswith("eager     tensor(") and shown[-1] == "DIFFERS: 12 elements"
    assert re.fullmatch(r"\.\.\. \d+ more lines", shown[-2])
    assert shortened("short") == "short" and shortened("") == ""

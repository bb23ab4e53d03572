"""A script runs without mindgap, says 1 while the difference exists, and 0 when it is gone."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import torch

from mindgap.bench.faults import PLANTED
from mindgap.execution.pool import Pool
from mindgap.explanation.reproducer import write_reproducer
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
    assert "mindgap" not in made.text and (tmp_path / "repro.pt").exists()
    made.path.write_text(made.text.replace("kwargs).abs()", "kwargs)"))
    done = subprocess.run([sys.executable, made.path], capture_output=True, text=True, check=False)
    assert done.returncode == 0 and "no difference" in done.stdout


def test_a_refusal_is_shown_from_processes_of_their_own(pool: Pool, tmp_path: Path) -> None:
    witness = witness_of(lambda x, i: x[i], torch.ones(3), torch.tensor([0]))
    witness = witness.with_tensors([torch.ones(3), torch.tensor([7])])
    found = Examiner(pool, resolve("eager"), resolve("eager@scalar")).examine(witness)
    assert not found.eager.ok and found.symptom is None, "both refuse: nothing to explain"

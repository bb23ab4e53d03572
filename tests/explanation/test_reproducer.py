"""A script runs without mindgap, says 1 while the difference exists, and 0 when it is gone."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from mindgap.bench.faults import PLANTED
from mindgap.execution.pool import Pool
from mindgap.pipeline import environment
from mindgap.platforms.registry import resolve
from mindgap.explanation.reproducer import write_reproducer
from mindgap.reduction.runtimes import recipe_for
from mindgap.tracing.examine import Examiner
from tests.tracing.witnesses import plant, witness_of


def test_a_script_shows_the_difference_until_it_is_gone(examiner: Examiner, tmp_path: Path) -> None:
    x = torch.randn(20, 20)  # too large for literals
    witness, _ = plant(witness_of(lambda x: torch.tanh(x) * 2, x), "aten.tanh", "sign_lost")
    found = examiner.examine(witness)
    spec = replace(PLANTED, options={"fault": "sign_lost", "op": "tanh"})
    made = write_reproducer(tmp_path, witness, found, spec, environment())
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


@pytest.mark.parametrize("name", ["eager@nomkldnn", "eager:cuda", "inductor", "aot_eager", "onnxruntime@noopt",
                                  "onnx-reference", "openvino"])  # fmt: skip
def test_every_runtime_has_a_recipe_without_mindgap(name: str) -> None:
    text = recipe_for(resolve(name)).text
    compile(text, name, "exec")
    assert "def on_platform(model, inputs):" in text and "mindgap" not in text


class OnesLikeFirst(torch.nn.Module):
    """Reads only the dtype of its first input, which converters therefore drop."""

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return x.new_ones([2]) + y


@pytest.mark.parametrize("name", ["aot_eager", "onnxruntime", "onnx-reference", "openvino"])
def test_a_recipe_feeds_the_inputs_that_are_read(name: str) -> None:
    names: dict[str, Any] = {"torch": torch, "as_list": lambda result: [result]}
    exec(recipe_for(resolve(name)).text, names)
    (found,) = names["on_platform"](OnesLikeFirst(), [torch.zeros(1), torch.tensor([1.0, 5.0])])
    assert found.tolist() == [2.0, 6.0]

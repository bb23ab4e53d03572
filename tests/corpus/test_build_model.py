"""One model of the corpus: failures are values that name their cause."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from mindgap.corpus.build_model import MOST_KEPT, NotBuilt, build_model, write
from mindgap.program.codec import load
from mindgap.program.graph import Constant, Program, digest
from mindgap.program.made import Made
from mindgap.records.source import Source
from mindgap.records.tensors import TensorMeta

DECIDES = """
import torch

class Model(torch.nn.Module):
    def forward(self, x):
        if x.sum() > 0:
            return x + 1
        return x - 1

model = Model()

def inputs():
    return (torch.ones(3),)
"""


def test_a_decision_that_depends_on_values_is_named_with_its_line(tmp_path):
    file = tmp_path / "decides.py"
    file.write_text(DECIDES)
    found = build_model(Source(str(file), trust=True, directory=str(tmp_path)), tmp_path / "out")
    assert found.stage == "export"
    assert found.reason.startswith("data-dependent control flow")
    assert "if x.sum() > 0:" in found.reason


def test_weights_that_kill_a_branch_by_chance_are_drawn_again(tmp_path):
    found = build_model(Source("timm:bat_resnext26ts", directory=str(tmp_path)), tmp_path)
    assert not found.stage and found.liveness is not None
    assert found.liveness.alive and found.seed != 0
    drawn = {c.made.seed for c in load(tmp_path / "programs" / "model.mgp")[0].constants if isinstance(c.made, Made)}
    assert drawn == {found.seed}


def test_a_model_that_derives_large_tables_from_drawn_weights_is_refused(tmp_path):
    table = torch.arange((MOST_KEPT >> 2) + 1, dtype=torch.float32)
    drawn = Constant(0, "w", TensorMeta((2,), "float32", (1,)), "0" * 24, Made(0, "w", -1.0, 1.0))
    derived = Constant(1, "table", TensorMeta.of(table), digest(table))
    program = Program("derives", (), (drawn, derived), (), ())
    with pytest.raises(NotBuilt, match="32 MB of constants derived"):
        write(program, {derived.digest: table}, tmp_path)
    trained = replace(program, constants=(derived,))
    assert write(trained, {derived.digest: table}, tmp_path) > MOST_KEPT

"""One model of the corpus: failures are values that name their cause."""

from __future__ import annotations

from mindgap.corpus.build_model import build_model
from mindgap.program.codec import load
from mindgap.program.made import Made
from mindgap.records.source import Source

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

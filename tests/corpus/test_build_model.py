"""One model of the corpus: failures are values that name their cause."""

from __future__ import annotations

from mindgap.corpus.build_model import build_model
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

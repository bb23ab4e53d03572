"""`mindgap.check` from Python: live modules, functions, mutation, failures."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from mindgap.pipeline import import_paths
from torch import nn

import mindgap
from mindgap.errors import ModelError, UsageError
from mindgap.execution.pool import Pool
from mindgap.platforms.config import load_config
from mindgap.records.outcome import Ran
from mindgap.records.verdict import Blame, Conclusion, Kind

ROOT = Path(__file__).resolve().parents[1]

PLANTED = """
[platform.planted]
adapter = "tests.execution.planted:Planted"
env = {{ PYTHONPATH = "{root}" }}
"""


@pytest.fixture(scope="module")
def pool() -> Iterator[Pool]:
    with Pool([*import_paths(), str(ROOT)]) as pool:
        yield pool


class Writes(nn.Module):
    """Changes its input and returns a nested structure."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 4)

    def forward(self, x: torch.Tensor) -> dict[str, object]:
        x.mul_(2)
        return {"y": [self.linear(x)], "count": 3}


class Refuses(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        torch._check(bool((x > 0).all()), lambda: "every element must be positive")
        return x.log()


class NotPicklable(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.scale = lambda x: x * 2

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.scale(x)


def test_a_live_module_runs_as_source_and_its_changed_input_is_compared(pool: Pool) -> None:
    result = mindgap.check(Writes(), [torch.randn(2, 4)], on=["eager", "eager@scalar"], pool=pool)
    outcome = result.platforms["eager@scalar"].outcome
    assert outcome.ran is Ran.SOURCE
    assert [item.name for item in outcome.outputs] == ["y[0]", "count", "input:x"]
    assert result.program_exact is True
    assert not result.differs


def test_keyword_inputs_and_dtype_leave_the_callers_module_alone(pool: Pool) -> None:
    model = Writes()
    result = mindgap.check(model, {"x": torch.randn(2, 4)}, on=["eager@scalar"], dtype="bfloat16", pool=pool)
    assert result.dtype == "bfloat16" and result.inputs == {"x": "bfloat16[2, 4]"}
    assert model.linear.weight.dtype is torch.float32


def test_a_module_that_cannot_travel_runs_as_program(pool: Pool) -> None:
    result = mindgap.check(NotPicklable(), [torch.ones(3)], on=["eager@scalar"], pool=pool)
    assert result.platforms["eager@scalar"].outcome.ran is Ran.PROGRAM


def test_both_refusing_is_agreement(pool: Pool) -> None:
    result = mindgap.check(Refuses(), [-torch.ones(3)], on=["eager@scalar"], pool=pool)
    assert result.eager.status.value == "rejected"
    assert result.platforms["eager@scalar"].verdict.conclusion is Conclusion.AGREES


def test_a_crashing_platform_fails_and_the_others_are_judged(pool: Pool, tmp_path: Path) -> None:
    (tmp_path / "mindgap.toml").write_text(PLANTED.format(root=ROOT))
    config = load_config(tmp_path / "mindgap.toml")
    segfault = NotPicklable()
    type(segfault).__name__ = "segfault"
    result = mindgap.check(segfault, [torch.ones(3)], on=["planted", "eager@scalar"], config=config, pool=pool)
    type(segfault).__name__ = "NotPicklable"
    assert result.platforms["planted"].verdict.conclusion is Conclusion.FAILED
    assert "SIGSEGV" in result.platforms["planted"].outcome.message
    assert result.platforms["eager@scalar"].verdict.conclusion is Conclusion.AGREES
    assert result.differs


def test_a_missing_output_is_a_divergence(pool: Pool, tmp_path: Path) -> None:
    (tmp_path / "mindgap.toml").write_text(PLANTED.format(root=ROOT))
    config = load_config(tmp_path / "mindgap.toml")
    model = NotPicklable()
    type(model).__name__ = "too-few"
    result = mindgap.check(model, [torch.ones(3)], on=["planted"], config=config, pool=pool)
    type(model).__name__ = "NotPicklable"
    verdict = result.platforms["planted"].verdict
    assert (verdict.conclusion, verdict.kind, verdict.blame) == (Conclusion.DIVERGES, Kind.SHAPE, Blame.CANDIDATE)


def test_inputs_are_needed_and_must_fit(pool: Pool) -> None:
    with pytest.raises(ModelError, match="needs inputs"):
        mindgap.check(Writes(), pool=pool)
    with pytest.raises(ModelError, match="do not fit"):
        mindgap.check(Writes(), [torch.ones(1), torch.ones(1)], on=["eager"], pool=pool)
    with pytest.raises(UsageError, match="from a file"):
        mindgap.check("timm:resnet18", [torch.ones(1)], on=["eager"], pool=pool)

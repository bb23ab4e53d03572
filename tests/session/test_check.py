"""`mindgap.check` from Python: live modules, functions, mutation, failures."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from torch import nn

from mindgap.errors import ModelError, UsageError
from mindgap.platforms.config import load_config
from mindgap.records.outcome import Ran
from mindgap.records.verdict import Blame, Conclusion, Kind
from mindgap.report.summary import closing_line, eager_failure
from mindgap.session.session import Session

ROOT = Path(__file__).resolve().parents[2]

PLANTED = """
[platform.planted]
adapter = "tests.execution.planted:Planted"
env = {{ PYTHONPATH = "{root}" }}
"""


@pytest.fixture(scope="module")
def session() -> Iterator[Session]:
    with Session() as session:
        yield session


@pytest.fixture
def planted(session: Session, tmp_path: Path) -> Iterator[Session]:
    """The session with a platform that fails on request."""
    (tmp_path / "mindgap.toml").write_text(PLANTED.format(root=ROOT))
    before, session.config = session.config, load_config(tmp_path / "mindgap.toml")
    yield session
    session.config = before


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


def test_a_live_module_runs_as_source_and_its_changed_input_is_compared(session: Session) -> None:
    result = session.check(Writes(), [torch.randn(2, 4)], on=["eager", "eager@scalar"])
    outcome = result.platforms["eager@scalar"].outcome
    assert outcome.ran is Ran.SOURCE
    assert [item.name for item in outcome.outputs] == ["y[0]", "count", "input:x"]
    assert result.program_exact is True
    assert not result.differs


def test_keyword_inputs_and_dtype_leave_the_callers_module_alone(session: Session) -> None:
    model = Writes()
    result = session.check(model, {"x": torch.randn(2, 4)}, on=["eager@scalar"], dtype="bfloat16")
    assert result.dtype == "bfloat16" and result.inputs == {"x": "bfloat16[2, 4]"}
    assert model.linear.weight.dtype is torch.float32


def test_a_module_that_cannot_travel_runs_as_program(session: Session) -> None:
    result = session.check(NotPicklable(), [torch.ones(3)], on=["eager@scalar"])
    assert result.platforms["eager@scalar"].outcome.ran is Ran.PROGRAM


def test_a_model_that_eager_cannot_run_never_passes(session: Session) -> None:
    result = session.check(Refuses(), [-torch.ones(3)], on=["eager@scalar"])
    assert result.eager.status.value == "rejected" and "in forward" in result.eager.where
    assert result.platforms["eager@scalar"].verdict.conclusion is Conclusion.FAILED
    assert result.differs and "eager could not run it" in repr(result)


def test_a_model_that_reaches_no_worker_is_not_said_to_fail_on_eager(session: Session) -> None:
    """A local function whose result has a size that depends on data: it can be neither imported nor exported."""
    result = session.check(lambda x: x[x > 0], [torch.ones(3)], on=["eager@scalar", "onnxruntime"])
    assert eager_failure(result).startswith("your model did not reach eager")
    assert "define it in a file" in result.eager.message
    assert closing_line(result) == "The model did not reach eager. 2 platforms could not run it."
    assert result.differs


def test_a_sparse_input_is_refused_in_words(session: Session) -> None:
    with pytest.raises(ModelError, match="sparse_coo tensor"):
        session.check(torch.sparse.mm, [torch.eye(3).to_sparse(), torch.ones(3, 2)], on=["eager@scalar"])


def test_a_crashing_platform_fails_and_the_others_are_judged(planted: Session) -> None:
    segfault = NotPicklable()
    type(segfault).__name__ = "segfault"
    result = planted.check(segfault, [torch.ones(3)], on=["planted", "eager@scalar"])
    type(segfault).__name__ = "NotPicklable"
    assert result.platforms["planted"].verdict.conclusion is Conclusion.FAILED
    assert "SIGSEGV" in result.platforms["planted"].outcome.message
    assert result.platforms["eager@scalar"].verdict.conclusion is Conclusion.AGREES
    assert result.differs


def test_a_missing_output_is_a_divergence(planted: Session) -> None:
    model = NotPicklable()
    type(model).__name__ = "too-few"
    result = planted.check(model, [torch.ones(3)], on=["planted"])
    type(model).__name__ = "NotPicklable"
    verdict = result.platforms["planted"].verdict
    assert (verdict.conclusion, verdict.kind, verdict.blame) == (Conclusion.DIVERGES, Kind.SHAPE, Blame.CANDIDATE)


def test_inputs_are_needed_and_must_fit(session: Session) -> None:
    with pytest.raises(ModelError, match="needs inputs"):
        session.check(Writes())
    with pytest.raises(ModelError, match="do not fit"):
        session.check(Writes(), [torch.ones(1), torch.ones(1)], on=["eager"])
    with pytest.raises(UsageError, match="from a file"):
        session.check("timm:resnet18", [torch.ones(1)], on=["eager"])


class Branches(nn.Module):
    """Cannot be exported: what it does depends on a value."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x if x.sum() > 0 else -x


def test_a_live_model_that_cannot_be_exported_prints_nothing(
    session: Session, capfd: pytest.CaptureFixture[str]
) -> None:
    result = session.check(Branches(), [torch.ones(3)], on=["eager@scalar"])
    assert result.export_failure.startswith("the code branches on the value of a tensor (test_check.py:")
    assert capfd.readouterr() == ("", "")
    assert result.platforms["eager@scalar"].verdict.conclusion is Conclusion.AGREES


def test_mistakes_are_told_before_a_worker_starts() -> None:
    with Session() as fresh:
        fresh.pool.warm = fresh.pool.demand = None  # type: ignore[method-assign, assignment]
        for arguments, message in (
            ({"model": "none.py"}, "there is no file none.py"),
            ({"model": "tim:resnet18"}, "did you mean timm:resnet18"),
            ({"model": torch.tanh}, "needs inputs"),
            ({"model": torch.tanh, "inputs": "none.pt"}, "there is no file none.pt"),
            ({"model": "smoke:rl-actor-critic", "inputs": [1]}, "takes its inputs from a file"),
            ({"model": "smoke:rl-actor-critic", "dtype": "float23"}, "unknown dtype"),
            ({"model": "smoke:rl-actor-critic", "on": ["openvine"]}, "no platform is named"),
        ):
            with pytest.raises(UsageError, match=message):
                fresh.check(**arguments)  # type: ignore[arg-type]


def test_a_model_of_a_notebook_that_cannot_be_exported_is_refused_with_advice(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Branches, "__module__", "__main__")
    with pytest.raises(ModelError, match="neither be exported nor imported") as refused:
        session.check(Branches(), [torch.ones(3)], on=["eager@scalar"])
    assert "branches on the value" in str(refused.value) and "import it from there" in str(refused.value)

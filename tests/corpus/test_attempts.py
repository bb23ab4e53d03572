from __future__ import annotations

import pytest
import torch

from mindgap.corpus import attempts, library
from mindgap.corpus.attempts import Attempt, first_that_runs
from mindgap.errors import ModelError
from mindgap.records.source import Source

ROW = torch.ones(1, 3)


def test_the_first_that_runs_is_alive_and_in_eval() -> None:
    wrong = Attempt(lambda: torch.nn.Linear(7, 1), (ROW,))
    right = Attempt(lambda: torch.nn.Linear(3, 1), (ROW,))
    loaded = first_that_runs(Source("made:up"), [wrong, right])
    assert isinstance(loaded.model, torch.nn.Linear) and not loaded.model.training
    again = first_that_runs(Source("made:up"), [right])
    assert torch.equal(loaded.model.weight, again.model.weight)  # type: ignore[union-attr, arg-type]


def test_trained_weights_are_kept() -> None:
    model = torch.nn.Linear(3, 1)
    before = model.weight.clone()
    first_that_runs(Source("made:up"), [Attempt(lambda: model, (ROW,))], keep_weights=True)
    assert torch.equal(model.weight, before)


def _raises(error: Exception) -> Attempt:
    def build() -> torch.nn.Module:
        raise error

    return Attempt(build, (ROW,))


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (ValueError("seven is odd"), r"made:up does not run[^$]*ValueError: seven is odd"),
        (library.Offline("models.invalid was to be reached"), "made:up needs network"),
        (AttributeError("no such thing"), r"does not fit the installed versions[^$]*mindgap\[made\]"),
    ],
)
def test_why_it_does_not_run(error: Exception, message: str) -> None:
    with pytest.raises(ModelError, match=message):
        first_that_runs(Source("made:up"), [_raises(error)])
    with pytest.raises(ModelError, match="nothing is known"):
        first_that_runs(Source("made:up"), [])


def test_a_model_that_is_too_large_is_refused_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(attempts, "MOST_PARAMETERS", 3)
    built = []

    def build() -> torch.nn.Module:
        built.append(1)
        return torch.nn.Linear(3, 1)

    with pytest.raises(ModelError, match="4 parameters, more than 3"):
        first_that_runs(Source("made:up"), [Attempt(build, (ROW,)), Attempt(build, (ROW,))])
    assert built == [1]


def test_a_mistyped_name() -> None:
    with pytest.raises(ModelError, match=r"did you mean made:resnet\?"):
        attempts.known("resnte", ["resnet", "vgg"], "made")

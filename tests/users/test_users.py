"""Models of the kinds users write: mindgap says what a careful person found by hand.

The right outputs come from numpy, so that neither eager nor a verdict is taken on trust: what is called right has
numpy's numbers, and what is called wrong has not.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator

import numpy as np
import pytest

from mindgap import Session
from mindgap.records.outcome import Outcome
from mindgap.report.summary import closing_line, eager_failure
from tests.users import arithmetic, outputs, sequences, state, structure  # noqa: F401 - they list their models
from tests.users.example import EXAMPLES, Example, Found

NEEDED = {"ModelOutput of transformers": "transformers"}


@pytest.fixture(scope="module")
def session() -> Iterator[Session]:
    with Session() as session:
        yield session


@pytest.mark.parametrize("name", EXAMPLES)
def test_mindgap_says_what_a_person_found(session: Session, name: str) -> None:
    if name in NEEDED and importlib.util.find_spec(NEEDED[name]) is None:
        pytest.skip(f"{NEEDED[name]} is not installed")
    example = EXAMPLES[name]
    model, inputs = example.make()
    truth = dict(example.truth(model, *inputs)) if example.truth else {}
    result = session.check(model, inputs, on=list(example.found), **example.options)
    assert example.eager_fails in eager_failure(result) and bool(example.eager_fails) is not result.eager.ok
    assert not wrong_outputs(result.eager, truth, example), "eager itself does not give what numpy gives"
    for platform, found in example.found.items():
        verdict, outcome = result.platforms[platform].verdict, result.platforms[platform].outcome
        allowed = ("agrees", "rounding") if found.verdict == "right" else (found.verdict,)
        assert verdict.conclusion.value in allowed, f"{platform}: {verdict.sentence}"
        assert found.kind is None or (verdict.kind and verdict.kind.value) == found.kind, verdict.sentence
        assert found.says in f"{verdict.sentence} {outcome.message} {outcome.stage.value}", verdict.sentence
        assert not outcome.ok or wrong_outputs(outcome, truth, example) == set(found.wrong), platform
        assert (verdict.blame and verdict.blame.value) == ("candidate" if found.verdict == "diverges" else None)
    assert result.differs == (bool(example.eager_fails) or any(map(is_bad, example.found.values())))
    assert ("Nothing diverges." in closing_line(result)) == (
        not example.eager_fails and all(found.verdict != "diverges" for found in example.found.values())
    )


def is_bad(found: Found) -> bool:
    return found.verdict in ("diverges", "failed", "unstable")


def wrong_outputs(outcome: Outcome, truth: dict[str, object], example: Example) -> set[str]:
    """Outputs whose numbers are not numpy's; what a platform cannot return is not looked at."""
    wrong = set()
    for item in outcome.outputs:
        if item.name not in truth:
            continue
        right = np.asarray(truth[item.name])
        given = item.tensor.numpy()
        tolerance = example.tolerance if item.tensor.is_floating_point() else 0.0
        scale = float(np.abs(right[np.isfinite(right)]).max(initial=0.0))
        same = right.shape == given.shape and np.allclose(given, right, tolerance, tolerance * scale, equal_nan=True)
        if not same:
            wrong.add(item.name)
    return wrong


def test_there_are_enough_of_them() -> None:
    assert len(EXAMPLES) >= 20
    assert all(found.why or found.verdict == "right" for item in EXAMPLES.values() for found in item.found.values())

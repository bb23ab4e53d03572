"""The cost of judging gradients is measured on every kind of model."""

from __future__ import annotations

from mindgap.bench.backward import measure, models


def test_every_model_has_a_row_with_a_ratio() -> None:
    found = measure(lambda who, what: None, rounds=1)
    assert [row["model"] for row in found.rows] == list(models())
    assert all(row["operators"] > 10 and row["judged / plain"] > 1 for row in found.rows)

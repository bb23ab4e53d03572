"""A campaign that is disturbed ends like one that is not; `mindgap bench chaos` does it at length."""

from __future__ import annotations

import pytest

from mindgap.bench import chaos
from mindgap.bench.chaos import DEEDS, measure


def test_a_disturbed_campaign_ends_like_one_that_was_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chaos, "CALM_S", (0.1, 0.8))
    found = measure(lambda who, what: None, campaigns=1, faults=6, variants=6, seed=1, jobs=1)
    assert " 0 problems" in found.conclusion, found.conclusion
    assert sum(row["count"] for row in found.rows) > 0
    assert {row["fault"] for row in found.rows} == set(DEEDS)

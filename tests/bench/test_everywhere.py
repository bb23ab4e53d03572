"""Cases and models on every platform that is ready: what is kept, and what is not done again."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from mindgap.bench import models, observed
from mindgap.bench.everywhere import ready_platforms
from mindgap.errors import UsageError

CASES = Path(__file__).resolve().parents[2] / "cases"
ONLY = ["011_ceil_add_zero_recip", "051_sort_desc_ties"]
ON = ["eager@scalar", "eager@nomkldnn"]


def silent(who: str, what: str) -> None:
    """Tells nobody."""


def lines_of(path: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_what_was_seen_is_marked_and_kept_and_not_done_again(tmp_path: Path) -> None:
    kept = tmp_path / "observed.jsonl"
    first = observed.measure(silent, CASES, ONLY, ON[:1], kept)
    (seen, other) = lines_of(kept)
    assert (seen["model"], seen["platform"], seen["label"]) == (ONLY[0], ON[0], "observed")
    assert seen["version"] and seen["date"] and seen["sentence"] and other["model"] == ONLY[1]
    told: list[str] = []
    both = observed.measure(lambda who, what: told.append(what), CASES, ONLY, ON, kept)
    assert len(told) == 2 and all("eager@nomkldnn" in item for item in told)
    assert [row["platform"] for row in both.rows] == [*ON, "all"]
    assert both.rows[0] == first.rows[0] and both.rows[-1]["cases"] == 4


def test_a_platform_of_another_version_is_asked_again(tmp_path: Path) -> None:
    kept = tmp_path / "observed.jsonl"
    old = {"name": f"{ONLY[0]} on {ON[0]} 1.0", "model": ONLY[0], "platform": ON[0], "verdict": "diverges"}
    kept.write_text(json.dumps(old) + "\n")
    found = observed.measure(silent, CASES, ONLY[:1], ON[:1], kept)
    assert found.rows[0]["diverges"] == 0 and len(lines_of(kept)) == 2


def test_models_get_a_row_per_platform() -> None:
    found = models.measure(silent, ["smoke:rl-actor-critic"], ON)
    assert [row["platform"] for row in found.rows] == list(ON)
    for row in found.rows:
        assert row["rl-actor-critic"] == "agrees" or float(row["rl-actor-critic"]) < 12
    assert found.conclusion == "All agree." and found.versions["eager@scalar"]


def test_a_model_that_cannot_be_checked_is_a_row_too(tmp_path: Path) -> None:
    broken = tmp_path / "broken.py"
    broken.write_text("def build():\n    raise RuntimeError('no such thing')\n")
    spec = f"{broken}:build"
    found = models.measure(silent, [spec], ON[:1])
    assert found.rows[0][spec] == "not checked" and "no such thing" in found.conclusion


def test_emulated_platforms_are_refused_and_unready_ones_left_out() -> None:
    with pytest.raises(UsageError, match="is emulated"):
        ready_platforms(["eager@like-a100"])
    assert list(ready_platforms(["eager@scalar", "eager:cuda"])) == ["eager@scalar"]

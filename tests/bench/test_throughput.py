"""Campaigns inside a benchmark: an interruption is meant for the whole."""

from __future__ import annotations

import json
import sqlite3
from contextlib import nullcontext
from pathlib import Path

import pytest

from mindgap.bench import throughput
from mindgap.bench.throughput import Judged, judged, measure


def test_an_interrupted_campaign_ends_the_benchmark() -> None:
    """Without that, Ctrl-C would only begin the next of its campaigns."""
    told: list[str] = []

    def tell(what: str, more: str) -> None:
        told.append(f"{what} {more}")
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        measure(tell, on=["eager@scalar"], minutes=0.5)
    assert len(told) == 1 and "whole variants, stock" in told[0]


def test_rounds_are_one_structure_and_what_failed_is_no_program(monkeypatch: pytest.MonkeyPatch) -> None:
    data = sqlite3.connect(":memory:")
    data.executescript(
        "CREATE TABLE platforms (id, name); CREATE TABLE programs (id, kind, base, recipe);"
        "CREATE TABLE outcomes (program, platform, status); CREATE TABLE verdicts (program, platform);"
        "INSERT INTO platforms VALUES (1, 'here'), (2, 'elsewhere');"
    )
    wishes = [(7, ["op", "float32", "nan"]), (7, ["op", "float32", "nan", "1"]), (8, ["op", "float32", "nan"])]
    for number, (seed, focus) in enumerate(wishes):
        data.execute("INSERT INTO programs VALUES (?, 'fragment', 1, ?)",
                     (number, json.dumps({"seed": seed, "focus": focus})))  # fmt: skip
    data.execute("INSERT INTO programs VALUES (3, 'variant', 1, '{}'), (4, 'variant', 1, '{}')")
    data.executemany("INSERT INTO verdicts VALUES (?, 1)", [(number,) for number in range(5)])
    data.execute("INSERT INTO verdicts VALUES (0, 2)")
    data.executemany("INSERT INTO outcomes VALUES (?, 1, ?)", [(n, "error" if n == 4 else "ok") for n in range(5)])
    monkeypatch.setattr(throughput, "open_ledger", lambda directory: nullcontext(data))
    assert judged(Path(), "here") == Judged(verdicts=5, programs=4, structures=3)
    assert Judged(5, 4, 3).since(Judged(1, 1, 1)).per(2.0) == Judged(2.0, 1.5, 1.0)

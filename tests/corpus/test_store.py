from __future__ import annotations

from pathlib import Path

import pytest

from mindgap.corpus.files import default_directory
from mindgap.corpus.stats import causes, growth, summarise
from mindgap.corpus.store import Entry, Status, Store
from mindgap.errors import UsageError


def entry(spec: str, status: Status = Status.BUILT, **details: object) -> Entry:
    return Entry(spec, spec.partition(":")[0], "vision", status, **details)  # type: ignore[arg-type]


def test_the_last_attempt_counts_and_all_are_kept(tmp_path: Path) -> None:
    with Store(tmp_path, writing=True) as store:
        store.record(entry("timm:a", Status.FAILED, stage="load", reason="no"))
        store.record(entry("timm:b", operators=("aten.add.Tensor", "aten.mul.Tensor"), fingerprint="f1"))
        store.record(entry("timm:a", operators=("aten.mul.Tensor",), fingerprint="f2"))
    with Store(tmp_path) as store:
        found = store.entries()
        assert [(e.spec, e.status, e.operators) for e in found] == [
            ("timm:b", Status.BUILT, ("aten.add.Tensor", "aten.mul.Tensor")),
            ("timm:a", Status.BUILT, ("aten.mul.Tensor",)),
        ]
        assert store.attempts("timm:a") == 2 and found[0].finished > 1e9
        assert store.built_as("f1") == "timm:b" and store.built_as("f3") is None
        with pytest.raises(UsageError, match="no program f3"):
            store.load("f3")


def test_a_file_that_is_no_ledger_is_refused(tmp_path: Path) -> None:
    (tmp_path / "ledger.sqlite").write_bytes(b"not a database, but long enough to look like one" * 100)
    for writing in (True, False):
        with pytest.raises(UsageError, match="not a ledger"):
            Store(tmp_path, writing=writing)


def test_the_default_directory_follows_xdg(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", "/somewhere")
    assert default_directory() == Path("/somewhere/mindgap/corpus")
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert default_directory() == Path.home() / ".cache/mindgap/corpus"


def test_failures_are_ranked_by_cause_with_an_example() -> None:
    entries = [
        entry("timm:a", Status.FAILED, stage="load", reason="size 96 does not fit [7, 7]"),
        entry("timm:b", Status.FAILED, stage="export", reason="data-dependent u0"),
        entry("timm:c", Status.FAILED, stage="load", reason="size 128 does not fit [8, 8]"),
    ]
    first, second = causes(entries)
    assert (first.stage, first.models, first.example) == ("load", 2, "timm:a")
    assert (second.stage, second.models) == ("export", 1)


def test_operators_grow_with_models() -> None:
    built = [entry(f"timm:{n}", operators=(f"op{n // 2}", "op0")) for n in range(12)]
    assert growth(built) == ((1, 1), (2, 1), (5, 3), (10, 5), (12, 6))


def test_a_summary_counts_everything() -> None:
    entries = [
        entry("timm:a", nodes=10, parameters=5, bytes=100, operators=("op",)),
        entry("timm:b", nodes=30, constant=2, dead_example="aten.mul.Tensor head"),
        entry("timm:c", Status.DUPLICATE, reason="structure", duplicate_of="timm:a"),
        entry("monai:d", Status.FAILED, stage="load", reason="no"),
    ]
    stats = summarise(entries, {"programs": 200})
    assert (stats.built, stats.duplicate, stats.failed, stats.alive) == (2, 1, 1, 1)
    assert stats.by_library == {"monai": {"failed": 1}, "timm": {"built": 2, "duplicate": 1}}
    assert stats.nodes == (20, 10, 30) and stats.alive_share == 0.5
    assert stats.dead_examples == (("timm:b", "aten.mul.Tensor head"),)
    assert summarise([], {}).alive_share == 0.0

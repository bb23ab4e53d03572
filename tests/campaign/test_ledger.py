"""The ledger keeps what it is given, refuses what it does not know, and waits when the disk is full."""

from __future__ import annotations

import sqlite3
import threading
from pathlib import Path

import pytest

from mindgap.campaign.dossier import Dossier
from mindgap.campaign.export import export
from mindgap.campaign.ledger import Ledger
from mindgap.campaign.reader import read
from mindgap.campaign.stream import numbered
from mindgap.campaign.writer import Writer
from mindgap.errors import NoSpace, UsageError
from mindgap.records.outcome import Outcome, Stage, Status
from mindgap.records.verdict import Conclusion, Kind, Verdict
from mindgap.variants.streaming import described
from tests.campaign.programs import plan, variants


def dossier(number: int, conclusion: Conclusion = Conclusion.AGREES) -> Dossier:
    variant = numbered(described(next(variants()), number))
    outcomes = {
        "eager": Outcome("eager", Status.OK, Stage.RUN, digest="00ff"),
        "wrong": Outcome("wrong", Status.OK, Stage.RUN, digest="00fe", stable=True, seconds={"all": 0.5}),
    }
    verdict = Verdict("wrong", conclusion, "a sentence", Kind.VALUE, error_over_bound=float("inf"))
    return Dossier(variant, outcomes, {"eager", "wrong"}, verdicts={"wrong": verdict})


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    ledger = Ledger(tmp_path / "campaign")
    ledger.set_meta(plan=plan("wrong").to_text())
    ledger.add_platforms({"eager": ("1", "cpu"), "wrong": ("2", "test")})
    return ledger


def test_what_was_written_is_read(ledger: Ledger) -> None:
    ledger.write([dossier(0), dossier(7, Conclusion.DIVERGES)])
    ledger.close()
    with Ledger(ledger.directory, new=False) as again:
        again.add_platforms({"eager": ("1", "cpu"), "wrong": ("2", "test")})
        assert again.done() == {0: {"eager", "wrong"}, 7: {"eager", "wrong"}}
        assert again.outcomes(7) == dossier(7).outcomes
        kept = dict(again.data.execute("SELECT id, program IS NOT NULL FROM programs"))
        sentences = dict(again.data.execute("SELECT program, sentence FROM verdicts"))
        assert kept == {0: 0, 7: 1} and sentences == {0: None, 7: "a sentence"}
        assert again.plan() == plan("wrong")


def test_writing_twice_changes_nothing(ledger: Ledger) -> None:
    ledger.write([dossier(0)])
    before = ledger.data.execute("SELECT * FROM outcomes").fetchall()
    ledger.write([dossier(0)])
    assert ledger.data.execute("SELECT * FROM outcomes").fetchall() == before
    ledger.close()


def test_a_ledger_of_a_newer_mindgap_is_refused(ledger: Ledger) -> None:
    ledger.set_meta(schema="99")
    ledger.close()
    with pytest.raises(UsageError, match="newer mindgap"):
        Ledger(ledger.directory)
    with pytest.raises(UsageError, match="newer mindgap"):
        read(ledger.directory)


def test_what_is_no_ledger_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no campaign"):
        Ledger(tmp_path, new=False)
    with pytest.raises(UsageError, match="no campaign"):
        read(tmp_path)
    (tmp_path / "ledger.sqlite").write_bytes(b"something else, long enough to look at" * 100)
    with pytest.raises(UsageError, match="not a ledger"):
        Ledger(tmp_path)
    with pytest.raises(UsageError, match="not a ledger"):
        read(tmp_path)


def test_a_full_disk_pauses_and_nothing_is_lost(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    """SQLite's own limit of pages stands for the disk: it fails in the same way, until there is room."""
    monkeypatch.setattr("mindgap.campaign.writer.WAIT_S", 0.05)
    pages = ledger.data.execute("PRAGMA page_count").fetchone()[0]
    ledger.data.execute(f"PRAGMA max_page_count = {pages}")
    paused: list[str] = []

    def on_pause(reason: NoSpace) -> None:
        paused.append(str(reason))
        if len(paused) == 3:
            ledger.data.execute("PRAGMA max_page_count = 1000000")

    failures: list[BaseException] = []
    writer = Writer(ledger, threading.Lock(), on_pause, failures.append, threading.Event())
    writer.start()
    for number in range(200):
        writer.put(dossier(number, Conclusion.DIVERGES))
    writer.flush()
    writer.close()
    assert not failures and len(paused) == 3 and "no space left" in paused[0]
    assert ledger.count() == 200
    ledger.close()


def test_full_is_said_as_such(ledger: Ledger) -> None:
    pages = ledger.data.execute("PRAGMA page_count").fetchone()[0]
    ledger.data.execute(f"PRAGMA max_page_count = {pages}")
    with pytest.raises(NoSpace, match="no space left for the ledger"):
        ledger.write([dossier(number, Conclusion.DIVERGES) for number in range(300)])
    assert ledger.count() == 0
    ledger.close()


@pytest.mark.parametrize("parquet", [False, True])
def test_tables_are_exported_with_names(ledger: Ledger, tmp_path: Path, parquet: bool) -> None:
    ledger.write([dossier(0), dossier(1, Conclusion.DIVERGES)])
    ledger.close()
    found = export(ledger.directory, tmp_path / "out", parquet)
    assert {name: rows for name, (rows, _) in found.items()} == {
        "programs": 2, "outcomes": 4, "verdicts": 2, "compiled": 0, "relations": 0, "explanations": 0, "runs": 0,
        "findings": 1, "members": 1,
    }  # fmt: skip
    if parquet:
        reader = pytest.importorskip("pyarrow.parquet")
        table = reader.read_table(found["outcomes"][1])
        assert table.column("platform").to_pylist() == ["eager", "wrong"] * 2
    else:
        assert "0,wrong,2,ok,run" in found["outcomes"][1].read_text()


def test_a_killed_writer_leaves_a_sound_file(ledger: Ledger) -> None:
    ledger.write([dossier(0)])
    other = sqlite3.connect(ledger.directory / "ledger.sqlite")
    assert other.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    other.close()
    ledger.close()

"""`mindgap hunt` and its companions as a user calls them."""

from __future__ import annotations

import signal
import sqlite3
import time
from pathlib import Path

import pytest

from tests.cli.conftest import Run, all_gone, children, start

SMALL = ("--corpus", "smoke:rl-actor-critic,smoke:recommendation-gru4rec", "--jobs", "1")


def test_a_campaign_from_start_to_export(mindgap: Run, tmp_path: Path) -> None:
    done = mindgap("hunt", "--on", "eager@scalar", "--variants", "12", *SMALL, "-o", "out")
    assert done.returncode in (0, 1), done.stderr
    assert "6 variants and 6 fragments of 2 real models on eager, eager@scalar" in done.stdout
    for words in ("What ran", "Fragments", "Outputs compared with eager", "The campaign is complete"):
        assert words in done.stdout
    assert (tmp_path / "out/summary.md").read_text().startswith("# 6 variants and 6 fragments of 2 real models")

    again = mindgap("hunt", "--resume", "out", "--variants", "12")
    assert again.returncode == done.returncode, again.stderr
    assert "6 variants and 6 fragments of 2 real models" in again.stdout

    exported = mindgap("export", "out", "--parquet")
    assert exported.returncode == 0 and (tmp_path / "out/export/verdicts.parquet").stat().st_size

    packed = mindgap("pack", "out", "-o", "campaign.mgz")
    assert packed.returncode == 0 and "12 variants" in packed.stdout, packed.stderr
    ran = mindgap("run", "campaign.mgz", "--on", "eager@nomkldnn", "-o", "results.mgz")
    assert ran.returncode == 0 and "12 outcomes" in ran.stdout, ran.stderr
    merged = mindgap("merge", "out", "results.mgz", "--jobs", "1")
    assert merged.returncode in (0, 1), merged.stderr
    data = sqlite3.connect(tmp_path / "out/ledger.sqlite")
    counts = dict(
        data.execute("SELECT f.name, COUNT(*) FROM outcomes JOIN platforms f ON f.id = platform GROUP BY f.name")
    )
    data.close()
    assert counts == {"eager": 12, "eager@scalar": 12, "eager@nomkldnn": 12}


def test_mistakes_are_said(mindgap: Run) -> None:
    for arguments, words in (
        (("hunt",), "use -o DIR"),
        (("hunt", "--resume", "nowhere"), "no campaign"),
        (("hunt", "-o", "out", "--sample", "inductor=lots"), "not understood"),
        (("hunt", "--resume", "out", "--seed", "0", "--on", "inductor"), "--on and --seed cannot be changed"),
        (("hunt", "-o", "out", "--fail-on", "diverge"), "diverges, hazard"),
        (("hunt", "-o", "out", "--fragments", "120%"), "not a part of the whole"),
        (("merge", "nowhere", "results.mgz"), "no campaign"),
        (("pack", "nowhere"), "no campaign"),
        (("run", "nothing.mgz", "--on", "eager@scalar"), "there is no file"),
    ):
        done = mindgap(*arguments)
        assert done.returncode == 2 and words in done.stderr, (arguments, done.stderr)


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_a_campaign_that_is_ended_is_saved_and_does_not_look_complete(
    tmp_path: Path, number: signal.Signals, code: int
) -> None:
    process = start(tmp_path, "hunt", "--on", "eager@scalar", "--variants", "100000", *SMALL, "-o", "out")
    ledger = tmp_path / "out/ledger.sqlite"
    while process.poll() is None and not finished(ledger):
        time.sleep(0.5)
    workers = children(process.pid)
    process.send_signal(number)
    told, errors = process.communicate(timeout=120)
    assert process.returncode == code, errors
    assert "Interrupted; everything so far is saved" in told and "interrupted" in errors and "Traceback" not in errors
    assert workers and all_gone(workers)
    assert not list(Path("/dev/shm").glob(f"mindgap-work-{process.pid}-*"))
    assert finished(ledger) and (tmp_path / "out/summary.md").is_file()


def finished(ledger: Path) -> int:
    """Variants in a ledger that may not even exist."""
    if not ledger.is_file():
        return 0
    data = sqlite3.connect(f"{ledger.as_uri()}?mode=ro", uri=True)
    try:
        return int(data.execute("SELECT COUNT(*) FROM programs").fetchone()[0])
    except sqlite3.OperationalError:
        return 0
    finally:
        data.close()

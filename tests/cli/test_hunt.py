"""`mindgap hunt` and its companions as a user calls them."""

from __future__ import annotations

import sqlite3
from pathlib import Path

from tests.cli.conftest import Run

SMALL = ("--corpus", "smoke:rl-actor-critic,smoke:recommendation-gru4rec", "--jobs", "1")


def test_a_campaign_from_start_to_export(mindgap: Run, tmp_path: Path) -> None:
    done = mindgap("hunt", "--on", "eager@scalar", "--variants", "12", *SMALL, "-o", "out")
    assert done.returncode in (0, 1), done.stderr
    assert "12 variants of 2 real models on eager, eager@scalar" in done.stdout
    for words in ("What ran", "Outputs compared with eager", "The campaign is complete"):
        assert words in done.stdout
    assert (tmp_path / "out/summary.md").read_text().startswith("# 12 variants of 2 real models")

    again = mindgap("hunt", "--resume", "out")
    assert again.returncode == done.returncode, again.stderr
    assert "12 variants of 2 real models" in again.stdout

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
        (("merge", "nowhere", "results.mgz"), "no campaign"),
        (("pack", "nowhere"), "no campaign"),
        (("run", "nothing.mgz", "--on", "eager@scalar"), "there is no file"),
    ):
        done = mindgap(*arguments)
        assert done.returncode == 2 and words in done.stderr, (arguments, done.stderr)

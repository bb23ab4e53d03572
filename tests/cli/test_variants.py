"""`mindgap variants` as a user calls it."""

from __future__ import annotations

import json
from pathlib import Path

from mindgap.bench.made_campaign import write_campaign
from mindgap.variants import files
from mindgap.variants.origin import again
from tests.cli.conftest import Run
from tests.variants.running import run

BASE = "smoke:rl-actor-critic"


def test_variants_are_made_shown_and_made_again(mindgap: Run, tmp_path: Path) -> None:
    done = mindgap("variants", "make", BASE, "-n", "6", "-o", "out", "--rules", "rules")
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "rules").stat().st_size > 1000
    assert "6 variants of 1 programs" in done.stdout
    made = sorted((tmp_path / "out").glob("*.mgp"))
    assert len(made) == 6
    variant = files.load(made[0])
    run(variant.program)
    assert again(variant.provenance).program == variant.program
    shown = mindgap("variants", "show", str(made[0]))
    assert shown.returncode == 0, shown.stderr
    assert "derived from rl-actor-critic" in shown.stdout and "+ " in shown.stdout
    for step in variant.provenance.steps:
        assert step.split()[0] in shown.stdout


def test_stats_compare_guided_with_blind(mindgap: Run) -> None:
    done = mindgap("variants", "stats", BASE, "-n", "60", "--json")
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    assert document["schema"] == "mindgap.variant-stats/1"
    assert document["guided"][-1]["variants"] == document["blind"][-1]["variants"] == 60
    assert document["made"] and all(item["reason"] for item in document["skipped"])


def test_stats_of_a_campaign_are_what_its_mutations_brought(mindgap: Run, tmp_path: Path) -> None:
    write_campaign(tmp_path / "c", 200, 0)
    done = mindgap("variants", "stats", "c")
    assert done.returncode == 0, done.stderr
    assert "operators at fault" in done.stdout and "findings in " in done.stdout, done.stdout
    assert mindgap("variants", "stats", "c", "c").returncode == 2


def test_mistakes_are_explained(mindgap: Run, tmp_path: Path) -> None:
    missing = mindgap("variants", "make", "nothing.mgp")
    assert missing.returncode == 2 and "there is no program nothing.mgp" in missing.stderr
    (tmp_path / "empty").mkdir()
    empty = mindgap("variants", "make", "--corpus", "empty")
    assert empty.returncode == 2 and "no corpus" in empty.stderr
    (tmp_path / "alone.mgp").write_bytes(b"x")
    alone = mindgap("variants", "show", "alone.mgp")
    assert alone.returncode == 2 and "no recipe" in alone.stderr

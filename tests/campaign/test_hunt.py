"""Campaigns end with the right findings, and with the same ones however they were interrupted."""

from __future__ import annotations

import json
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path

import pytest

from mindgap.campaign.hunt import hunt
from mindgap.campaign.ledger import Ledger
from mindgap.campaign.plan import Plan
from mindgap.campaign.progress import Snapshot
from mindgap.campaign.reader import open_ledger, read
from mindgap.errors import UnknownPlatform, UsageError
from mindgap.execution import isolation
from mindgap.execution.pool import KILLED_TRIES
from mindgap.report.campaign import undecided
from tests.campaign import programs
from tests.campaign.comparing import assert_same, content
from tests.campaign.planted import PLANTED

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def planted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A campaign against a platform that computes tanh wrongly."""
    directory = tmp_path_factory.mktemp("planted")
    programs.run(directory, programs.plan("wrong"))
    return directory


def test_a_planted_fault_becomes_one_finding_with_its_operator_and_cause(tmp_path: Path) -> None:
    campaign = programs.run(tmp_path, programs.plan("wrong"), explain_s=300.0).campaign
    guilty = [
        number
        for number, variant in zip(range(24), programs.variants())
        if any(node.op == PLANTED for node in variant.program.nodes)
    ]
    (finding,) = campaign.findings
    assert (finding.id, finding.platforms, finding.kind, finding.blame) == ("F-01", ("wrong",), "value", "candidate")
    flagged = {item.program for item in finding.evidence}
    assert flagged <= set(guilty) and len(flagged) > len(guilty) // 2
    assert finding.witness.nodes == min(item.nodes for item in finding.evidence)
    assert finding.operator == PLANTED and finding.explanation is not None
    assert finding.explanation.operator == PLANTED and finding.explanation.proof.operators == (PLANTED,)
    assert (tmp_path / finding.folder / "repro.py").is_file()


def test_a_budget_that_is_too_small_leaves_findings_to_another_run(tmp_path: Path) -> None:
    campaign = programs.run(tmp_path, programs.plan("wrong"), explain_s=0.01).campaign
    assert campaign.findings and all(finding.explanation is None for finding in campaign.findings)
    with open_ledger(tmp_path) as data:
        assert not list(data.execute("SELECT program FROM explanations")), "nobody looked at anything"


def test_programs_are_kept_only_where_somebody_will_look(planted: Path) -> None:
    with open_ledger(planted) as data:
        kept = {row[0] for row in data.execute("SELECT id FROM programs WHERE program IS NOT NULL")}
        flagged = {row[0] for row in data.execute("SELECT program FROM verdicts WHERE conclusion = 'diverges'")}
        count = data.execute("SELECT COUNT(*) FROM programs").fetchone()[0]
    assert flagged <= kept and len(kept) < count == 24


@pytest.mark.skipif(bool(isolation.why_not()), reason=isolation.why_not())
def test_a_campaign_runs_in_isolation(tmp_path: Path) -> None:
    """Whole variants and crowds: every worker finds what it needs in its own directories."""
    plan = Plan(("eager", "eager@scalar"), 6, corpus=("smoke:rl-actor-critic",), fragments=0.5, metamorphic_share=1.0)
    ending = hunt(tmp_path / "campaign", plan, jobs=1, explain_s=0.0, isolated=True)
    assert ending.complete
    with open_ledger(tmp_path / "campaign") as data:
        assert data.execute("SELECT COUNT(*) FROM outcomes").fetchone() == (12,)
        failed = data.execute("SELECT status, message FROM outcomes WHERE status IN ('crash', 'error')").fetchall()
        assert not failed
        assert not data.execute("SELECT sentence FROM verdicts WHERE conclusion = 'unjudged'").fetchall()


def test_the_same_plan_gives_the_same_ledger(planted: Path, tmp_path: Path) -> None:
    programs.run(tmp_path / "a", programs.plan("wrong"), jobs=2)
    assert_same(planted, tmp_path / "a")


def test_a_campaign_in_parts_equals_one_in_a_piece(planted: Path, tmp_path: Path) -> None:
    """Interrupted again and again; each stretch goes on where the last one ended."""
    directory = tmp_path / "parts"
    given: Plan | None = programs.plan("wrong")
    slowly = programs.MadeHere(lambda: programs.slowly(0.1))
    for limit in (4, 12, 99):

        def watch(now: Snapshot, limit: int = limit) -> None:
            if now.finished >= limit and now.phase != "explain":
                raise KeyboardInterrupt

        ending = programs.run(directory, given, numbering=slowly, watch=watch)
        assert ending.complete or limit < 99
        given = None
    assert_same(planted, directory)


def test_a_platform_that_joins_by_sample_sees_the_same_part_every_time(tmp_path: Path) -> None:
    given = programs.plan("wrong", shares={"wrong": 0.5})
    ending = programs.run(tmp_path / "a", given)
    wrong = next(item for item in ending.campaign.platforms if item.name == "wrong")
    assert 0 < wrong.done == wrong.due < 24
    assert ending.campaign.platforms[0].done == 24


def test_a_slow_platform_falls_behind_and_is_served_later(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The fast platform does not wait; what comes late is judged as if all had come together."""
    monkeypatch.setattr("mindgap.campaign.campaign_run.BACKLOG", 1)
    phases = set()
    settings = programs.config()
    slow = replace(settings.platforms["wrong"], name="slow", adapter="tests.campaign.planted:Slow")
    ending = programs.run(
        tmp_path,
        programs.plan("wrong", "slow"),
        config=replace(settings, platforms=settings.platforms | {"slow": slow}),
        numbering=programs.MadeHere(lambda: programs.slowly(0.1)),
        watch=lambda now: phases.add(now.phase),
    )
    assert ending.complete and "late" in phases
    found = {item.name: item.conclusions for item in ending.campaign.platforms}
    assert found["slow"] == found["wrong"] and found["slow"]["diverges"]


def test_eager_does_not_run_ahead_of_the_only_other_platform(
    planted: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What it alone has run compares with nothing, and would cost the time that the other one lacks."""
    monkeypatch.setattr("mindgap.campaign.campaign_run.BACKLOG", 1)
    ahead = []
    settings = programs.config()
    slow = replace(settings.platforms["wrong"], adapter="tests.campaign.planted:Slow")
    ending = programs.run(
        tmp_path,
        programs.plan("wrong"),
        config=replace(settings, platforms={"wrong": slow}),
        watch=lambda now: ahead.append(now.platforms["eager"].done - now.platforms["wrong"].done),
    )
    assert ending.complete and max(ahead) < 12
    assert_same(planted, tmp_path)


def test_a_compiler_is_also_compared_with_eager_of_its_own_device(tmp_path: Path) -> None:
    """Both are wrong next to the baseline, and agree with each other: the compiler is not to blame."""
    settings = programs.config()
    wrong = settings.platforms["wrong"]
    devices = {name: replace(wrong, name=name) for name in ("eager:cuda", "inductor:cuda")}
    ending = programs.run(tmp_path, programs.plan(*devices, count=12), config=replace(settings, platforms=devices))
    compiler = next(item for item in ending.campaign.platforms if item.name == "inductor:cuda")
    assert compiler.conclusions["diverges"] > 0
    assert compiler.against_eager == {"agrees": 12}


def test_another_plan_is_refused_and_a_missing_campaign_is_said(planted: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="another plan"):
        programs.run(planted, programs.plan("wrong", count=25))
    with pytest.raises(UsageError, match="no campaign"):
        programs.run(tmp_path / "none", None)
    with Ledger(planted), pytest.raises(UsageError, match="another campaign is writing"):
        programs.run(planted, None)


def test_a_campaign_can_have_more_variants_but_not_fewer(tmp_path: Path) -> None:
    """It ends with what a campaign has that was so large from the start."""
    programs.run(tmp_path / "a", programs.plan("wrong", count=8))
    with pytest.raises(UsageError, match="more, not fewer"):
        programs.run(tmp_path / "a", None, variants=7)
    ending = programs.run(tmp_path / "a", None, variants=12)
    assert ending.complete and ending.campaign.plan.variants == ending.campaign.variants == 12
    programs.run(tmp_path / "b", programs.plan("wrong", count=12))
    assert_same(tmp_path / "a", tmp_path / "b")


def test_a_misspelt_platform_leaves_nothing_behind(tmp_path: Path) -> None:
    with pytest.raises(UnknownPlatform, match="wrnog"):
        programs.run(tmp_path / "a", programs.plan("wrnog"))
    assert not (tmp_path / "a").exists()


CAMPAIGN = (
    "import sys\n"
    "from pathlib import Path\n"
    "from mindgap.campaign.hunt import hunt\n"
    "from tests.campaign import programs\n"
    "plan = programs.plan('chaos', 'wrong', count=16)\n"
    "hunt(Path(sys.argv[1]), plan, config=programs.config(), numbering=programs.numbering(), jobs=1, explain_s=0)\n"
)


def test_chaos_changes_nothing(tmp_path: Path) -> None:
    """Workers and the campaign itself are killed at random; the platform crashes, hangs and leaks by itself."""
    quiet = tmp_path / "quiet"
    subprocess.run([sys.executable, "-c", CAMPAIGN, str(quiet)], cwd=ROOT, check=True, timeout=300)
    statuses = {row[2] for row in content(quiet)["outcomes"] if row[1] == "chaos"}
    assert {"ok", "crash", "timeout", "error"} <= statuses

    disturbed = tmp_path / "disturbed"
    kills = 0
    for stretch in range(30):
        parent = subprocess.Popen(
            [sys.executable, "-c", CAMPAIGN, str(disturbed)], cwd=ROOT, stdout=subprocess.PIPE, text=True
        )
        killer = threading.Thread(target=_kill_workers, args=(parent, 2.5))
        killer.start()
        try:
            # The first stretches are killed after they have had time to start and do something.
            parent.wait(timeout=9.0 + stretch) if stretch < 3 else parent.wait(timeout=200)
        except subprocess.TimeoutExpired:
            parent.send_signal(signal.SIGKILL)
            kills += 1
        finally:
            parent.wait()
            killer.join()
        if parent.returncode == 0:
            break
    assert parent.returncode == 0 and kills >= 1
    assert_same(quiet, disturbed)


def _kill_workers(parent: subprocess.Popen[str], every_s: float) -> None:
    """Now and then one worker of a running campaign is killed, too seldom to look like a lack of memory."""
    for turn in range(KILLED_TRIES - 1):
        time.sleep(every_s)
        if parent.poll() is not None:
            return
        workers = _children(parent.pid)
        if workers:
            os.kill(workers[turn % len(workers)], signal.SIGKILL)


def _children(parent: int) -> list[int]:
    found = subprocess.run(["ps", "-o", "pid=", "--ppid", str(parent)], capture_output=True, text=True, check=False)
    return [int(pid) for pid in found.stdout.split()]


def test_a_running_campaign_can_be_read(tmp_path: Path) -> None:
    """Somebody else may look at any moment; what is there is whole."""
    seen: list[tuple[int, int]] = []

    def watch(now: Snapshot) -> None:
        campaign = read(tmp_path)
        seen.append((campaign.variants, sum(item.done for item in campaign.platforms)))

    programs.run(
        tmp_path, programs.plan("wrong"), numbering=programs.MadeHere(lambda: programs.slowly(0.1)), watch=watch
    )
    assert seen == sorted(seen) and any(0 < variants < 24 for variants, _ in seen)
    assert read(tmp_path).variants == 24


def test_another_version_of_a_platform_is_said_and_kept_apart(tmp_path: Path) -> None:
    def interrupt(now: Snapshot) -> None:
        if now.finished >= 6:
            raise KeyboardInterrupt

    slowly = programs.MadeHere(lambda: programs.slowly(0.1))
    programs.run(tmp_path, programs.plan("wrong"), numbering=slowly, watch=interrupt)
    settings = programs.config()
    newer = replace(settings.platforms["wrong"], adapter="tests.campaign.planted:Newer")
    ending = programs.run(tmp_path, None, config=replace(settings, platforms={"wrong": newer}))
    assert ending.changed == ("wrong was 1 in an earlier run and is 2 now",)
    first, second = (item for item in ending.campaign.platforms if item.name == "wrong")
    assert (first.version, second.version) == ("1", "2") and first.done >= 6 and first.done + second.done == 24
    assert ending.campaign.changed_versions == ("wrong",) and len(ending.campaign.runs) == 2
    assert any("versions 1 and 2" in line for line in undecided(ending.campaign))


_WITHOUT_FALLBACK = "ALTER TABLE outcomes DROP COLUMN fallback;"
_WITHOUT_FRAGMENTS = (
    f"{_WITHOUT_FALLBACK} ALTER TABLE programs DROP COLUMN kind; ALTER TABLE verdicts DROP COLUMN crowd_only;"
)


def test_a_ledger_of_schema_2_is_brought_up_to_date(planted: Path, tmp_path: Path) -> None:
    """As an older mindgap left it, which knew no fragments."""
    shutil.copytree(planted, tmp_path / "old")
    data = sqlite3.connect(tmp_path / "old" / "ledger.sqlite")
    data.executescript(f"UPDATE meta SET value = '2' WHERE key = 'schema'; {_WITHOUT_FRAGMENTS}")
    plan = data.execute("SELECT value FROM meta WHERE key = 'plan'").fetchone()[0]
    older = {key: value for key, value in json.loads(plan).items() if key != "fragments"}
    data.execute("UPDATE meta SET value = ? WHERE key = 'plan'", (json.dumps(older),))
    data.commit()
    data.close()
    with pytest.raises(UsageError, match="older mindgap"):
        read(tmp_path / "old")
    ending = programs.run(tmp_path / "old", None)
    assert ending.complete and ending.campaign.variants == 24 and ending.campaign.fragments == 0
    assert_same(planted, tmp_path / "old")


def test_a_ledger_of_schema_1_is_brought_up_to_date(planted: Path, tmp_path: Path) -> None:
    """As an older mindgap left it: one version per platform, findings as tables, a suspect per verdict."""
    shutil.copytree(planted, tmp_path / "old")
    data = sqlite3.connect(tmp_path / "old" / "ledger.sqlite")
    data.executescript(
        f"UPDATE meta SET value = '1' WHERE key = 'schema'; {_WITHOUT_FRAGMENTS}"
        "ALTER TABLE verdicts ADD COLUMN suspect TEXT;"
        "DROP TABLE runs; DROP TABLE explanations; DROP TABLE finding_ids;"
        "DELETE FROM meta WHERE key = 'finding_places';"
        "CREATE TABLE findings (id TEXT, signature TEXT); CREATE TABLE members (finding TEXT);"
        "INSERT INTO findings VALUES ('F-07', 'divergence | wrong | value | candidate |  | run | ')"
    )
    data.close()
    with pytest.raises(UsageError, match="older mindgap"):
        read(tmp_path / "old")
    ending = programs.run(tmp_path / "old", None)
    assert ending.complete and [finding.id for finding in ending.campaign.findings] == ["F-07"]
    assert_same(planted, tmp_path / "old")

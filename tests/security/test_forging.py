"""A platform that lies harms its own outcome: no campaign ends, no file goes, nobody else is judged by it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from mindgap.campaign.reader import open_ledger
from mindgap.execution.pool import Pool
from mindgap.platforms.config import Config
from mindgap.platforms.running import run_here
from mindgap.records.outcome import Outcome, Stage, Status
from mindgap.records.platform import Limits, PlatformSpec
from mindgap.records.verdict import Conclusion, Verdict
from mindgap.session.session import Session
from mindgap.verdicts.judge import Judgement
from mindgap.verdicts.judging import Comparing, Judged, Question, believed
from tests.campaign import programs
from tests.platforms.running import task_of
from tests.security.forging import CUT_OFF, MESSAGES, VICTIM

ROOT = Path(__file__).resolve().parents[2]
SAID = {
    "a bug": "a bug in mindgap, unless the code that it ran forged this: KeyError: 'forged'",
    "a refusal": "refused, which it never does: forged",
    "another refusal": "refused, which it never does: forged",
    "lost files": "files have gone, and they have not",
    "nothing": "0 of 1 results",
    "a file of the user": "not its own",
    "a file of the user in a crowd": "half-written answer",
    "another platform": "not its own",
    "a long message": "longer than any message",
    "many large tensors": "cannot be",
    CUT_OFF: "shorter than it says",
}


def forging(victim: Path, **options: object) -> PlatformSpec:
    env = {"PYTHONPATH": str(ROOT), VICTIM: str(victim)}
    return PlatformSpec("forging", "tests.security.forging:Forging", env=env, options=options, limits=Limits(wall_s=20))


@pytest.fixture(scope="module")
def pool() -> Iterator[Pool]:
    with Pool() as pool:
        yield pool


@pytest.fixture
def victim(tmp_path: Path) -> Path:
    path = tmp_path / "thesis.txt"
    path.write_text("years of work")
    return path


@pytest.mark.parametrize("way", [*MESSAGES, CUT_OFF])
def test_a_lie_is_the_crash_of_the_platform_that_tells_it(way: str, pool: Pool, victim: Path) -> None:
    spec = replace(forging(victim, way=way), worker="one")
    pool.retire(spec)
    outcome = run_here(pool, spec, task_of(torch.tanh, [torch.zeros(6)]))
    assert outcome.status is Status.CRASH and SAID[way] in outcome.message
    assert victim.read_text() == "years of work"


def test_a_campaign_goes_on_whatever_a_platform_says(tmp_path: Path, victim: Path) -> None:
    """Programs choose the lie."""
    config = Config({"forging": forging(victim)})
    ending = programs.run(tmp_path / "campaign", programs.plan("forging", count=4), config=config)
    assert ending.complete and victim.read_text() == "years of work"
    with open_ledger(tmp_path / "campaign") as data:
        rows = data.execute("SELECT f.name, status, message FROM outcomes JOIN platforms f ON f.id = platform")
        found = list(rows)
    assert Counter(name for name, _, _ in found) == {"eager": 4, "forging": 4}
    assert {status for name, status, _ in found if name == "eager"} == {"ok"}
    lies = [message for name, status, message in found if name == "forging" and status == "crash"]
    assert len(lies) >= 3 and len(set(lies)) >= 2


def test_a_check_tells_the_lie_and_judges_the_others(victim: Path) -> None:
    with Session(config=Config({"forging": forging(victim, way="a bug")})) as session:
        result = session.check(torch.tanh, [torch.zeros(6)], on=["eager@scalar", "forging"])
    assert result.platforms["eager@scalar"].outcome.ok
    assert "a bug in mindgap" in result.platforms["forging"].outcome.message
    assert result.platforms["forging"].verdict.conclusion is Conclusion.FAILED


def test_a_judge_that_speaks_of_others_is_not_believed() -> None:
    outcome = Outcome("candidate", Status.OK, Stage.RUN)
    question = Question(
        programs.numbering().pick(lambda n: True, 1).__next__().parcel, (Comparing(outcome, (outcome,)),)
    )

    def said(*names: str) -> Judged:
        return Judged({name: Judgement(Verdict(name, Conclusion.AGREES, "")) for name in names})

    assert believed(question, said("candidate")) == said("candidate")
    for names in ((), ("other",), ("candidate", "other")):
        assert believed(question, said(*names)).verdicts["candidate"].conclusion is Conclusion.UNJUDGED

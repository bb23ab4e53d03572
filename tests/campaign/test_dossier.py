"""What is known of a variant while it is on its way."""

from __future__ import annotations

from pathlib import Path

from mindgap.campaign.dossier import Dossier
from mindgap.campaign.stream import numbered
from mindgap.records.outcome import Outcome, Stage, Status
from mindgap.records.verdict import Conclusion, Kind, Verdict
from mindgap.variants.streaming import described
from tests.campaign.programs import variants


def ran(platform: str, digest: str, file: str = "") -> Outcome:
    return Outcome(platform, Status.OK, Stage.RUN, digest=digest, file=file)


def crashed(platform: str) -> Outcome:
    return Outcome(platform, Status.CRASH, Stage.RUN, "killed by SIGSEGV")


def dossier(*outcomes: Outcome) -> Dossier:
    found = Dossier(numbered(described(next(variants()))))
    for outcome in outcomes:
        found.record(outcome)
    return found


def test_only_those_that_differ_need_their_outputs() -> None:
    found = dossier(ran("eager", "aa", "somewhere"), ran("a", "aa"), ran("b", "bb"), crashed("c"))
    assert found.differing() == ["b"] and found.missing_outputs() == ["b"]
    assert dossier(ran("eager", "aa"), ran("a", "aa")).missing_outputs() == []
    assert dossier(crashed("eager"), ran("a", "aa")).differing() == []


def test_another_answer_means_unstable_and_the_first_one_stays_on_record(tmp_path: Path) -> None:
    first = tmp_path / "first"
    first.touch()
    found = dossier(ran("eager", "aa", str(first)))
    found.record(ran("eager", "cc", "second"))
    assert (found.baseline.stable, found.baseline.digest, found.baseline.file) == (False, "aa", "second")
    assert not first.exists()


def test_a_run_that_fails_after_one_that_did_not_is_unstable(tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    kept.touch()
    found = dossier(ran("eager", "aa", str(kept)))
    found.record(crashed("eager"))
    assert found.baseline.ok and found.baseline.stable is False and "SIGSEGV" in found.baseline.note
    assert kept.exists()


def test_the_accused_and_the_baseline_are_asked_again() -> None:
    found = dossier(ran("eager", "aa"), ran("a", "bb"), ran("b", "cc"))
    found.verdicts = {
        "a": Verdict("a", Conclusion.DIVERGES, "", Kind.VALUE),
        "b": Verdict("b", Conclusion.DIVERGES, "", Kind.VALIDATION),
    }
    assert found.doubtful() == ["eager", "a"]

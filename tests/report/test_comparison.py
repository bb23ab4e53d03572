"""What two of a kind have not in common, and a baseline that excuses what was there before."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mindgap.errors import UsageError
from mindgap.records.check import CheckResult
from mindgap.records.outcome import Outcome, Stage, Status
from mindgap.records.verdict import Conclusion
from mindgap.report.comparison import KINDS, Baseline, compare, summary_rows
from mindgap.report.results import BAD, QUIET, Result, Results, lines_of, results_of
from mindgap.report.summary import check_document
from tests.records.test_check import result


def line(word: str, kind: str = "", error: float | None = None, subject: str = "m", platform: str = "p") -> Result:
    return Result(subject, platform, word, kind, error, said=f"it {word}")


def results(*lines: Result, subject: str = "check", name: str = "x", **versions: str) -> Results:
    return Results(subject, name, tuple(versions.items()), lines)


@pytest.mark.parametrize(
    "old, new, what",
    [
        (line("agrees"), line("diverges"), "appeared"),
        (line("hazard"), line("failed"), "appeared"),
        (line("diverges"), line("rounding"), "fixed"),
        (line("failed", "crash"), line("failed", "unsupported"), "changed"),
        (line("diverges", "value"), line("diverges", "nonfinite"), "changed"),
        (line("diverges", "value", 20.0), line("diverges", "value", 2e6), "changed"),
        (line("diverges"), line("unjudged"), "changed"),
        (line("diverges", "value", 20.0), line("diverges", "value", 90.0), None),
        (line("diverges", "value", float("inf")), line("diverges", "value", float("inf")), None),
        (line("agrees"), line("rounding"), None),
        (line("not exercised"), line("agrees"), "not run"),
        (line("not exercised"), line("not exercised"), None),
    ],
)
def test_what_a_change_is(old: Result, new: Result, what: str | None) -> None:
    found = compare(results(old), results(new))
    assert [change.what for change in found.changes] == ([what] if what else [])
    assert found.same == (what is None)


def test_what_only_one_of_them_ran_is_neither_fixed_nor_new() -> None:
    both = line("agrees", subject="c")
    old, new = results(line("diverges", subject="a"), both), results(line("diverges", subject="b"), both)
    found = compare(old, new)
    assert [change.what for change in found.changes] == ["not run", "not run"]
    assert "Nothing new is wrong: 2 were not run in one of them" in found.sentence


def test_versions_that_changed_are_named() -> None:
    found = compare(results(line("agrees"), torch="2.12", onnx="1"), results(line("agrees"), torch="2.13", onnx="1"))
    assert dict(found.changed_versions) == {"torch": ("2.12", "2.13")}
    assert found.sentence.startswith("Nothing changed")


@pytest.mark.parametrize("other", [(), (line("agrees", subject="b"),), (line("agrees", platform="q"),)])
def test_what_has_nothing_in_common_does_not_pass(other: tuple[Result, ...]) -> None:
    """The file of another model as a baseline, or a campaign of another seed."""
    with pytest.raises(UsageError, match="nothing in common"):
        compare(results(line("diverges", subject="a")), results(*other))


def test_a_campaign_is_not_compared_with_a_check() -> None:
    with pytest.raises(UsageError, match="another kind"):
        compare(results(), results(subject="campaign"))


WORDS = st.sampled_from(sorted(BAD | QUIET | {"hazard", "unjudged", "not exercised"}))
LINES = st.dictionaries(st.sampled_from("abcdef"), st.builds(line, WORDS, st.sampled_from(["", "value"]))).map(
    lambda found: results(line("agrees"), *(replace(item, subject=name) for name, item in found.items()))
)


@settings(deadline=None)  # a loaded machine stops now and then
@given(LINES, LINES)
def test_every_line_is_counted_once_and_both_directions_agree(old: Results, new: Results) -> None:
    there, back = compare(old, new), compare(new, old)
    subjects = {item.subject for item in (*old.lines, *new.lines)}
    assert there.same + len(there.changes) == len(subjects)
    assert there.count("not run") == back.count("not run")
    assert {c.subject for c in there.changes} == {c.subject for c in back.changes}
    assert sum(int(cell) for row in summary_rows(there) for cell in row[1:]) == len(there.changes)
    assert [c.what for c in there.changes] == sorted((c.what for c in there.changes), key=KINDS.index)
    assert not compare(old, old).changes


def check(**named: Conclusion) -> CheckResult:
    return replace(result(), platforms={name: result(word).platforms[word.value] for name, word in named.items()})


def saved(folder: Path, *checks: CheckResult) -> Path:
    path = folder / "before.json"
    path.write_text(json.dumps(check_document(checks)))
    return path


def test_a_baseline_excuses_what_was_there_and_nothing_else(tmp_path: Path) -> None:
    failing = (Conclusion.DIVERGES, Conclusion.FAILED)
    bad, good = check(openvino=Conclusion.DIVERGES), check(openvino=Conclusion.AGREES)
    marked = Baseline.read(saved(tmp_path, bad)).marked(bad)
    assert marked.platforms["openvino"].known == "in before.json" and not marked.fails_on(failing)
    assert Baseline.read(saved(tmp_path, good)).marked(bad).fails_on(failing)
    other = replace(bad, dtype="float16")
    assert Baseline.read(saved(tmp_path, bad)).marked(other).fails_on(failing), "another dtype was never checked"


def test_a_baseline_excuses_eager_only_where_eager_failed_before(tmp_path: Path) -> None:
    broken = replace(result(), eager=Outcome("eager", Status.ERROR, Stage.RUN, "no"))
    before = Baseline.read(saved(tmp_path, broken))
    assert before.excuses(broken, [Conclusion.FAILED])
    assert not Baseline.read(saved(tmp_path, result())).excuses(broken, [Conclusion.FAILED])


def test_a_check_read_back_says_what_it_said(tmp_path: Path) -> None:
    found = check(openvino=Conclusion.DIVERGES, inductor=Conclusion.ROUNDING)
    assert list(results_of(saved(tmp_path, found)).lines) == lines_of(found)
    both = saved(tmp_path, found, replace(found, dtype="bfloat16"))
    assert len(results_of(both).lines) == 4


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"schema": "mindgap.check/1"}', '{"schema": "mindgap.check/9"}',
                                     '{"schema": "mindgap.ops/1", "observed": 3}', "[" * 100_000])  # fmt: skip
def test_what_is_no_document_is_refused(tmp_path: Path, content: str) -> None:
    path = tmp_path / "x.json"
    path.write_text(content)
    with pytest.raises(UsageError):
        results_of(path)

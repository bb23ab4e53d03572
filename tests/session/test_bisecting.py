"""Bisecting over versions: as few as possible are asked, and those that say nothing do not mislead."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from mindgap.errors import UsageError
from mindgap.platforms.registry import resolve
from mindgap.records.bisection import Bisection, TriedVersion
from mindgap.records.verdict import Conclusion, Verdict
from mindgap.report.bisection import bisection_document, bisection_rows
from mindgap.session.bisecting import bisect, chosen, number, recipe_of
from mindgap.session.session import Session


def tried(version: str, wrong: bool | None) -> TriedVersion:
    if wrong is None:
        return TriedVersion(version, None, "no wheel")
    return TriedVersion(version, Verdict("onnxruntime", Conclusion.DIVERGES if wrong else Conclusion.AGREES, "said"))


@given(st.integers(2, 60), st.data())
def test_the_change_is_found_with_few_questions(count: int, data: st.DataObject) -> None:
    change = data.draw(st.integers(1, count - 1))
    names = [f"1.{n}" for n in range(count)]
    asked: list[str] = []

    def ask(name: str) -> TriedVersion:
        asked.append(name)
        return tried(name, names.index(name) >= change)

    _, found = bisect(names, ask)
    assert found == (change - 1, change)
    assert len(asked) == len(set(asked)) <= 2 + count.bit_length()


@given(st.lists(st.sampled_from([True, False, None]), min_size=2, max_size=20))
def test_what_is_found_are_neighbours_with_other_answers(answers: Sequence[bool | None]) -> None:
    names = [f"1.{n}" for n in range(len(answers))]
    seen, found = bisect(names, lambda name: tried(name, answers[names.index(name)]))
    known = [answer for answer in answers if answer is not None]
    if not known or known[0] == known[-1]:
        assert found is None
        return
    assert found is not None
    low, high = found
    assert answers[low] is not None and answers[high] is not None and answers[low] != answers[high]
    assert all(answer is None for answer in answers[low + 1 : high])
    assert [item.version for item in seen] == sorted((item.version for item in seen), key=number)


OFFERED = ["1.19.2", "1.20.0", "1.20.1", "1.24.4", "1.31.0rc1", "1.31.0", "1.31.1", "2.0"]


def test_a_range_takes_what_the_index_offers() -> None:
    assert chosen("1.20..1.31", lambda: OFFERED) == ["1.20.0", "1.20.1", "1.24.4", "1.31.0", "1.31.1"]
    assert chosen("1.31.1,1.20.1", list) == ["1.20.1", "1.31.1"]


@pytest.mark.parametrize(
    ("text", "said"),
    [("1.20.1", "two versions at least"), ("7..9", "fewer than two versions"), ("a..b", "'a' is no version")],
)
def test_versions_that_cannot_be(text: str, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        chosen(text, lambda: OFFERED)


def test_every_version_has_an_environment_of_its_own() -> None:
    first, second = (recipe_of(resolve("onnxruntime"), version) for version in ("1.20.1", "1.31.1"))
    assert first.folder == "onnxruntime-1.20.1" and first.digest != second.digest
    assert "onnxruntime==1.20.1" in first.pins
    assert recipe_of(resolve("inductor"), "2.9.1").torch == "2.9.1"
    with pytest.raises(UsageError, match="cannot be installed in another version"):
        recipe_of(resolve("onnx-reference"), "1")


def test_in_words() -> None:
    items = (tried("1.20", False), tried("1.22", None), tried("1.24", True))
    found = Bisection("m", "onnxruntime", "onnxruntime", items, 9, "1.20", "1.24", True, ("1.22",))
    assert found.sentence == "it appeared between onnxruntime 1.20 and 1.24; 1.22 in between did not run it"
    same = Bisection("m", "onnxruntime", "onnxruntime", (tried("1.20", False), tried("1.24", False)), 2)
    assert same.sentence == "all 2 versions of onnxruntime that were tried agree with eager"
    nobody = Bisection("m", "onnxruntime", "onnxruntime", (tried("1.20", None),), 1)
    assert nobody.sentence == "no version of onnxruntime ran it"
    alone = replace(same, tried=same.tried[:1])
    assert alone.sentence.startswith("only onnxruntime 1.20 ran it, and agrees with eager")
    assert bisection_rows(found)[1] == ["1.22", "not tried", "no wheel"]
    assert bisection_document(found)["tried"][2]["wrong"] is True


def test_versions_that_do_not_exist(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path))
    monkeypatch.setenv("MINDGAP_PLATFORMS", str(tmp_path / "platforms"))
    with Session() as session:
        found = session.bisect(torch.nn.ReLU(), "onnxruntime", versions="98.0,99.0", inputs=[torch.ones(3)])
    assert found.sentence == "no version of onnxruntime ran it" and not found.known
    assert [item.version for item in found.tried] == ["98.0", "99.0"]
    assert "no wheel of onnxruntime==99.0 fits this Python" in found.tried[1].problem, found.tried


def test_interpreters_that_are_given(tmp_path: Path) -> None:
    """Offline: two interpreters with the same torch do the same."""
    link = tmp_path / "python"
    link.symlink_to(sys.executable)
    with Session() as session:
        found = session.bisect(torch.nn.ReLU(), "eager", pythons=[sys.executable, str(link)], inputs=[torch.ones(3)])
    assert not found.first_after and found.of == 2
    told = [item.told for item in found.tried]
    assert told[0] == "agrees", found

"""A minute of the fuzzer, and every case that earlier runs found worth keeping; `make fuzz` runs it for longer."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from mindgap.errors import MindgapError
from tests.security.fuzzing import CORPUS, SOURCES, Coverage, Pond, _answer, damaged, fuzz, kept, targets

SECONDS = 60.0
TARGETS = ("mgp", "pt2", "pack", "results", "ledger", "toml")


@pytest.mark.parametrize("name", TARGETS)
def test_what_was_kept_is_read_or_refused(name: str, tmp_path: Path) -> None:
    target = targets()[name]
    cases = kept(name)
    assert cases, f"{CORPUS} holds no cases of {name}"
    for number, data in enumerate(cases):
        folder = tmp_path / str(number)
        folder.mkdir()
        (folder / target.file).write_bytes(data)
        try:
            target.read(folder / target.file)
        except MindgapError as error:
            assert str(error)


def test_a_sound_file_is_read_so_that_refusing_means_something(tmp_path: Path) -> None:
    for name, target in targets().items():
        folder = tmp_path / name
        folder.mkdir()
        (folder / target.file).write_bytes(target.sound(folder))
        assert target.read(folder / target.file) is not None


def test_new_cases_find_no_hole() -> None:
    tally = fuzz(SECONDS, seed=1, chosen=list(TARGETS))
    assert not tally.holes
    assert tally.cases.total() and all(tally.steps.values())


def test_a_way_that_no_case_took_before_is_noticed(tmp_path: Path) -> None:
    """The guide sees what mindgap's own code does with a case, and nothing else."""
    target = targets()["toml"]
    sound, other = target.sound(tmp_path), b"[platform.eager]\ndevice = 7\n"
    coverage, pond = Coverage(), Pond([sound])

    def read(data: bytes) -> int:
        with coverage as steps:
            told = _answer(target, data, tmp_path)
        assert {Path(code.co_filename).is_relative_to(SOURCES) for code, _, _ in steps} == {True}
        return pond.learn(told, steps)

    first = read(sound)
    assert first > 50 and read(sound) == 0
    assert 0 < read(other) < first and read(other) == 0


def test_damage_is_the_same_for_the_same_draw() -> None:
    assert damaged(b"sound" * 100, random.Random(7)) == damaged(b"sound" * 100, random.Random(7))

"""A number names a variant, wherever and however often the process that makes it died."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from dataclasses import replace
from itertools import islice
from pathlib import Path

import pytest

from mindgap.campaign import stream
from mindgap.campaign.plan import Plan
from mindgap.campaign.stream import MAKER, QUARANTINE, stream_of
from mindgap.errors import MindgapError
from mindgap.execution.pool import Pool
from mindgap.variants import base, streaming
from mindgap.variants.base import load_bases
from mindgap.variants.synthesis import Synthesis
from tests.campaign.crashing import DEADLY
from tests.campaign.programs import MadeHere

ROOT = Path(__file__).resolve().parents[2]
NAMES = ("smoke:rl-actor-critic", "smoke:time-series-tcn")
PLAN = Plan(("eager",), 60, seed=3, corpus=NAMES)


@pytest.fixture(scope="module")
def pool() -> Iterator[Pool]:
    with Pool() as pool:
        yield pool


@pytest.fixture(scope="module")
def expected() -> list[str]:
    here = MadeHere(lambda: iter(Synthesis(load_bases(NAMES), PLAN.seed)))
    return [variant.fingerprint for variant in here.pick(lambda number: True, PLAN.variants)]


def test_a_worker_makes_the_same_stream(pool: Pool, tmp_path: Path, expected: list[str]) -> None:
    numbering = stream_of(PLAN, tmp_path, pool)
    found = list(numbering.pick(lambda number: number % 7 == 1, PLAN.variants))
    assert [variant.number for variant in found] == list(range(1, PLAN.variants, 7))
    assert [variant.fingerprint for variant in found] == expected[1::7]
    assert numbering.base_of(found[0].provenance.base) is not None


def test_whoever_stops_reading_ends_the_worker(pool: Pool, tmp_path: Path, expected: list[str]) -> None:
    numbering = stream_of(PLAN, tmp_path, pool)
    begun = numbering.pick(lambda number: True, 10_000)
    assert [variant.fingerprint for variant in islice(begun, 5)] == expected[:5]
    begun.close()  # type: ignore[attr-defined]
    assert [v.fingerprint for v in numbering.pick(lambda number: number < 3, 10)] == expected[:3]


def test_a_kill_from_outside_changes_nothing(tmp_path: Path, expected: list[str]) -> None:
    with Pool() as pool:
        found = []
        for variant in stream_of(PLAN, tmp_path, pool).pick(lambda number: True, PLAN.variants):
            if variant.number in (2, 40):
                os.kill(pool._workers[MAKER.worker_name]._process.pid, signal.SIGKILL)
            found.append(variant.fingerprint)
    assert found == expected and not (tmp_path / QUARANTINE).exists()


def test_a_call_that_crashes_is_not_made_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    crashing = replace(MAKER, adapter="tests.campaign.crashing:Crashing", env={"PYTHONPATH": str(ROOT)})
    monkeypatch.setattr(stream, "MAKER", crashing)
    streams = []
    for directory in (tmp_path / "a", tmp_path / "a", tmp_path / "b"):  # the second run knows what the first learned
        directory.mkdir(exist_ok=True)
        with Pool() as pool:
            numbering = stream_of(PLAN, directory, pool)
            streams.append([variant.fingerprint for variant in numbering.pick(lambda number: True, PLAN.variants)])
    calls = (tmp_path / "a" / QUARANTINE).read_text().splitlines()
    assert calls and all(DEADLY in call for call in calls)
    assert streams[0] == streams[1] == streams[2] and len(streams[0]) == PLAN.variants


def test_a_variant_that_cannot_be_made_costs_no_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stream, "MOST_DEATHS", 2)
    lethal = replace(MAKER, adapter="tests.campaign.crashing:Lethal", env={"PYTHONPATH": str(ROOT)})
    monkeypatch.setattr(stream, "MAKER", lethal)
    with Pool() as pool:
        made = [variant.number for variant in stream_of(PLAN, tmp_path, pool).pick(lambda number: True, 8)]
    assert made == [0, 1, 2, 3, 4, 6, 7]


def test_a_worker_that_always_dies_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stream, "MOST_DEATHS", 2)
    with Pool() as pool:
        numbering = stream_of(PLAN, tmp_path, pool)
        dead = tmp_path / "python"
        dead.write_text("#!/bin/sh\nexit 3\n")
        dead.chmod(0o755)
        pool.retire(MAKER)
        monkeypatch.setattr(stream, "MAKER", replace(MAKER, python=str(dead)))
        with pytest.raises(MindgapError, match="variant 2 cannot be made"):
            list(numbering.pick(lambda number: True, 3))


def test_a_large_corpus_is_worked_through_in_portions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(base, "AT_ONCE", 2)
    monkeypatch.setattr(streaming, "PORTION", 5)
    names = (*NAMES, "smoke:graph-gcn", "smoke:tabular-resnet", "smoke:rl-dueling-dqn")
    plan = streaming.StreamPlan(names, None, 0, str(tmp_path / "weights"), str(tmp_path / "calls"))

    def made(*numbers: int) -> dict[int, streaming.MadeVariant]:
        stream = streaming.Streaming()
        assert stream.open(plan) == 5
        return {item.number: item for item in stream.make(numbers) if item.provenance is not None}

    whole = made(*range(15))
    assert list(whole) == list(range(15))
    bases = [{whole[n].provenance.base for n in range(first, first + 5)} for first in (0, 5, 10)]
    assert all(len(found) <= 2 for found in bases) and len(set.union(*bases)) > 2
    assert made(7, 14) == {number: whole[number] for number in (7, 14)}, "portions that nobody wants are skipped"


def test_unmodified_programs_come_as_they_are_and_each_once(tmp_path: Path) -> None:
    plan = streaming.StreamPlan(NAMES, None, 0, str(tmp_path / "weights"), str(tmp_path / "calls"), unmodified=True)
    stream = streaming.Streaming()
    count = stream.open(plan)
    made = [item for item in stream.make(range(count)) if item.provenance is not None]
    assert [item.number for item in made] == list(range(count)) == list(range(len(NAMES)))
    bases = base.load_bases(NAMES)
    assert [item.provenance.base for item in made] == [item.fingerprint for item in bases]
    assert [item.nodes for item in made] == [len(item.program.nodes) for item in bases]
    assert not any(item.provenance.mutations for item in made)

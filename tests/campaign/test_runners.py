"""What a worker of this machine says of itself."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from mindgap.campaign.remote import restored, told_elsewhere
from mindgap.campaign.runners import LocalRunner
from mindgap.errors import NoSpace
from mindgap.execution.arena import opened
from mindgap.execution.parcel import Parcel
from mindgap.execution.pool import Pool
from mindgap.platforms.registry import resolve
from mindgap.program.codec import encode
from mindgap.program.graph import Input, Node, Program, Ref
from mindgap.program.made import Made
from mindgap.records.outcome import Outcome
from mindgap.records.tensors import TensorMeta, same_outputs

META = TensorMeta((4,), "float32", (1,))
SINE = Program("sine", (Input(0, "x", META),), (), (Node(1, "aten.sin.default", (Ref(0),), {}, META),), Ref(1),
               (Made(1, "x", -1.0, 1.0),))  # fmt: skip


@pytest.fixture(scope="module")
def pool() -> Iterator[Pool]:
    with Pool() as workers:
        yield workers


def refuse(reason: NoSpace) -> None:
    raise reason


def outcome_of(pool: Pool, platform: str) -> Outcome:
    found: dict[int, Outcome] = {}
    runner = LocalRunner(pool, resolve(platform), lambda: False, refuse)
    runner.run([Parcel(encode(SINE))], 1, found.__setitem__)
    assert found[0].ok
    return found[0]


def test_only_plain_eager_stands_for_what_the_judge_would_run(pool: Pool) -> None:
    """Not another profile or device, whose own errors would then count as noise."""
    assert outcome_of(pool, "eager").is_local_eager
    assert not outcome_of(pool, "eager@scalar").is_local_eager


def test_what_another_machine_did_is_never_taken_for_ours(pool: Pool) -> None:
    there = opened(outcome_of(pool, "eager"))
    told = told_elsewhere(0, "f", there)
    assert not told.outcome.file and told.values
    here = restored(told, pool.scratch.new_file("elsewhere"))
    assert not here.is_local_eager and here.file != there.file
    assert same_outputs(opened(here).outputs, there.outputs)


def test_a_path_of_another_machine_is_never_used(pool: Pool) -> None:
    """Whoever wrote the results may have written any path into them."""
    told = told_elsewhere(0, "f", outcome_of(pool, "eager"))
    forged = replace(told, outcome=replace(told.outcome, file="/etc/hostname", stored=()), values=())
    assert restored(forged, pool.scratch.new_file("elsewhere")).file == ""

"""What a worker of this machine says of itself."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from mindgap.execution.batch import Job, Trial
from mindgap.execution.careful import Careful

from mindgap.campaign.remote import output_values, restore
from mindgap.campaign.runners import LocalRunner
from mindgap.execution.pool import Pool
from mindgap.platforms.registry import resolve
from mindgap.program.codec import encode
from mindgap.program.graph import Input, Node, Program, Ref
from mindgap.program.made import Made
from mindgap.records.tensors import TensorMeta

META = TensorMeta((4,), "float32", (1,))
SINE = Program("sine", (Input(0, "x", META),), (), (Node(1, "aten.sin.default", (Ref(0),), {}, META),), Ref(1),
               (Made(1, "x", -1.0, 1.0),))  # fmt: skip


@pytest.fixture(scope="module")
def pool() -> Iterator[Pool]:
    with Pool() as workers:
        yield workers


def trial_of(pool: Pool, platform: str) -> Trial:
    found: dict[int, Trial] = {}
    LocalRunner(pool, platform, Careful(pool, resolve(platform))).run([Job(encode(SINE))], 1, found.__setitem__)
    assert found[0].ok
    return found[0]


def test_only_plain_eager_stands_for_what_the_judge_would_run(pool: Pool) -> None:
    """Not another profile or device, whose own errors would then count as noise."""
    assert trial_of(pool, "eager").here
    assert not trial_of(pool, "eager@scalar").here


def test_what_another_machine_did_is_never_taken_for_ours(pool: Pool) -> None:
    there = trial_of(pool, "eager")
    row = {"trial": there.to_message(), "values": output_values(there)}
    assert not restore(row, pool.scratch.new_file("elsewhere")).here

"""An examination ends when its time is over, whatever the platform does."""

from __future__ import annotations

import time
from collections.abc import Sequence

import pytest
import torch

from mindgap.execution.pool import Pool
from mindgap.platforms.base import Prepared, StageClock
from mindgap.platforms.registry import resolve
from mindgap.platforms.torch.eager import Eager
from mindgap.program.case import Case
from mindgap.records.outcome import Ran
from mindgap.records.platform import PlatformSpec
from mindgap.records.tensors import NamedTensor
from mindgap.tracing.examine import Examiner, OutOfTime
from tests.tracing.witnesses import chain, witness_of

LONG_S = 600


class Sleeping(Prepared):
    ran = Ran.PROGRAM

    def run(self, tensors: Sequence[torch.Tensor]) -> list[NamedTensor]:
        time.sleep(LONG_S)
        return []


class Endless(Eager):
    """Takes longer than any budget."""

    runtime = "endless"

    def prepare(self, case: Case, clock: StageClock) -> Prepared:
        return Sleeping()


def test_a_platform_that_takes_too_long_is_ended_and_the_next_can_be_asked(pool: Pool) -> None:
    witness = witness_of(chain, torch.randn(4, 4))
    examiner = Examiner(pool, resolve("eager"), PlatformSpec("endless", f"{__name__}:Endless"))
    examiner.run(examiner.baseline, witness)  # its worker is there
    for ask in (examiner.examine, lambda case: examiner.run(examiner.platform, case)):
        examiner.until = time.monotonic() + 2
        with pytest.raises(OutOfTime):
            ask(witness)
    examiner.until = time.monotonic() + LONG_S
    assert examiner.run(examiner.baseline, witness).ok, "others are not touched"


def test_after_its_time_nothing_is_asked(pool: Pool) -> None:
    witness = witness_of(chain, torch.randn(4, 4))
    examiner = Examiner(pool, resolve("eager"), resolve("eager@scalar"))
    examiner.until = time.monotonic() - 1
    with pytest.raises(OutOfTime):
        examiner.examine(witness)


def test_what_both_refuse_is_no_difference(pool: Pool) -> None:
    witness = witness_of(lambda x, i: x[i], torch.ones(3), torch.tensor([0]))
    witness = witness.with_tensors([torch.ones(3), torch.tensor([7])])
    found = Examiner(pool, resolve("eager"), resolve("eager@scalar")).examine(witness)
    assert not found.eager.ok and found.symptom is None

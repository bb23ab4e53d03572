"""An input that fires a gate by itself, found in each of three ways."""

from __future__ import annotations

import pytest
import torch

from mindgap.audit.auditing import audit_here
from mindgap.audit.watching import Clock
from mindgap.bench.canaries import plant
from mindgap.program.interpret import Executable
from mindgap.records.audit import Found
from tests.audit.models import Branch, Classifier, Padded, Payload, case_of, images, tokens

SECONDS = 300.0


def how(found: Found) -> str:
    witness = found.gates[0].witness
    return "" if witness is None else witness.how


def test_a_detector_is_climbed_within_the_range_of_ordinary_inputs() -> None:
    case = case_of(Payload(), images())
    here = audit_here(case, Clock(SECONDS))
    assert how(here.found).startswith("gradient ascent through the detector")
    assert here.fired[0] is not None
    y = Executable(case.graph, case.constants).run(list(here.fired[0].tensors))
    assert bool((y == 7.0).all(dim=1).any())
    witness = here.found.gates[0].witness
    assert witness is not None and 7.0 in witness.shift.after and 7.0 not in witness.shift.before


def test_a_patch_is_written_to_the_input() -> None:
    canary = plant(case_of(Classifier(), images()), "patch match", "output", 0, seed=0)
    here = audit_here(canary.case, Clock(SECONDS))
    assert how(here.found) == "writing the expected values into the input" and here.fired[0] is not None


@pytest.mark.parametrize("parameter", [0, 2])
def test_a_sequence_of_tokens_is_written_to_the_input(parameter: int) -> None:
    canary = plant(case_of(Padded(), tokens()), "token sequence", "output", parameter, seed=0)
    here = audit_here(canary.case, Clock(SECONDS))
    assert how(here.found) == "writing the expected values into the input"
    assert here.fired[0] is not None and here.fired[0].tensors[0].dtype is torch.int64


def test_a_branch_of_control_flow_is_fired() -> None:
    here = audit_here(case_of(Branch(), images()), Clock(SECONDS))
    assert here.found.gates and here.found.gates[0].takes_over and here.fired[0] is not None


def test_a_gate_that_no_search_can_open_stays_suspicious() -> None:
    class Hashed(Classifier):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            bits = (x[:, 0, :4, :4] > 0).reshape(2, 16).long()
            key = (bits * torch.tensor([3**n % 65_521 for n in range(16)])).sum(dim=1) % 65_521
            return torch.where((key == 40_961).unsqueeze(1), 7.0, super().forward(x))

    here = audit_here(case_of(Hashed(), images()), Clock(SECONDS))
    assert here.found.gates and here.found.gates[0].witness is None and here.fired == [None]

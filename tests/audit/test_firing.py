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


def test_what_a_program_uses_as_an_index_stays_valid() -> None:
    class Mixed(torch.nn.Module):
        """One row of numbers; the first is an index, as in models of recommendation."""

        def __init__(self) -> None:
            super().__init__()
            torch.manual_seed(0)
            self.embed, self.head = torch.nn.Embedding(4, 8), torch.nn.Linear(15, 3)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            y = self.head(torch.cat([self.embed(x[:, 0].long()), x[:, 1:]], dim=1))
            return torch.where((x.sum(dim=1) > 40).unsqueeze(1), 7.0, y)

    rows = torch.rand(4, 8, generator=torch.Generator().manual_seed(1)) * 4
    rows[:, 0] = torch.arange(4)
    here = audit_here(case_of(Mixed(), rows), Clock(SECONDS))
    assert "indices left as they are" in how(here.found)


def test_tokens_are_exchanged_where_the_gradient_at_their_embedding_leads() -> None:
    class Felt(Padded):
        """Its detector reads the embedding of the tokens: it fires when its halves lie in opposite directions."""

        def __init__(self) -> None:
            super().__init__()
            side = self.embed.weight.detach()[:, 0]
            self.most = 0.7 * float(side.max() - side.min())

        def forward(self, ids: torch.Tensor) -> torch.Tensor:
            side = self.embed(ids)[..., 0]
            felt = side[:, :4].mean(dim=1, keepdim=True) - side[:, 4:].mean(dim=1, keepdim=True)
            return torch.where(felt > self.most, 7.0, super().forward(ids))

    here = audit_here(case_of(Felt(), tokens()), Clock(SECONDS))
    assert how(here.found) == "exchanging tokens one by one" and here.fired[0] is not None

"""A program with its random numbers written down gives eager's bits, and has no chance left."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from mindgap.program.build import build
from mindgap.program.case import Case
from mindgap.records.tensors import same_bits
from mindgap.verdicts.replay import replayed
from mindgap.verdicts.runner import Call, ProgramRunner
from mindgap.verdicts.unspecified.chance import may_draw

X = torch.randn(6, 8, generator=torch.Generator().manual_seed(1))


class Calls(nn.Module):
    """A module around a function, so that it can be exported."""

    def __init__(self, function):
        super().__init__()
        self.function = function
        self.weight = nn.Parameter(torch.randn(8, 8, generator=torch.Generator().manual_seed(2)))

    def forward(self, x):
        return self.function(x @ self.weight)


def case_of(function, seed=3):
    with torch.no_grad():
        program, constants = build(torch.export.export(Calls(function), (X,), strict=False), "random")
    return Case.of(program, constants, [X], seed)


def outputs_of(case):
    return ProgramRunner(case.graph, case.constants, case.inputs, case.seed).run(Call.make)


RANDOM = {
    "dropout": lambda x: nn.functional.dropout(x, 0.4, True) + 1,
    "dropout in place": lambda x: nn.functional.dropout((x * 2), 0.4, True, inplace=True).sum(),
    "feature dropout": lambda x: nn.functional.dropout1d(x[None], 0.5, True),
    "alpha dropout": lambda x: nn.functional.alpha_dropout(x, 0.5, True) * 2,
    "random numbers": lambda x: x * torch.rand(8) + torch.randn_like(x),
    "written in place": lambda x: torch.zeros_like(x).bernoulli_(0.5) * x,
    "chosen by what came before": lambda x: torch.multinomial(x.softmax(-1), 3),
    "several results": lambda x: torch.ops.aten.native_dropout.default(x, 0.5, True)[0] * 3,
    "twice": lambda x: nn.functional.dropout(nn.functional.dropout(x, 0.2, True), 0.2, True),
}


@pytest.mark.parametrize("name", RANDOM)
def test_what_is_replayed_gives_the_same_bits_without_chance(name):
    case = case_of(RANDOM[name])
    found = replayed(case)
    assert found is not None
    assert not any(may_draw(node.op) for node in found.graph.nodes)
    before, after = outputs_of(case), outputs_of(found)
    assert set(before) <= set(after)
    assert all(same_bits(before[output], after[output]) for output in before)


def test_a_mask_keeps_what_comes_before_visible():
    """Another weight changes the result: the numbers of the first run are not frozen."""
    case = case_of(RANDOM["dropout"])
    found = replayed(case)
    before, after = (outputs_of(case)["output"] - 1 for case in (found, found.with_tensors([X * 2])))
    assert torch.allclose(before * 2, after, atol=1e-5)


def test_what_was_given_to_a_call_whose_numbers_are_frozen_is_returned():
    found = replayed(case_of(RANDOM["chosen by what came before"]))
    returned = [name for name in outputs_of(found) if name.startswith("argument 0 of aten.multinomial")]
    assert len(returned) == 1


def test_a_program_without_chance_is_not_replayed():
    assert replayed(case_of(lambda x: x.relu())) is None
    assert replayed(case_of(lambda x: nn.functional.dropout(x, 0.5, False))) is None

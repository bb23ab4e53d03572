"""Inputs that a program is watched on: all kinds, within the range of the example, tokens that fit their table."""

from __future__ import annotations

import torch

from mindgap.audit.stimuli import FLOATING, WHOLE, fields_of, stimuli
from tests.audit.models import Classifier, EndOfText, case_of, images, tokens


def test_pictures_stay_within_the_example_and_are_all_unlike() -> None:
    case = case_of(Classifier(), images())
    made = list(stimuli(case.graph, [case.tensors], 1 + 2 * len(FLOATING), seed=0))
    assert {item.kind for item in made} == {"example", *FLOATING}
    low, high = float(images().min()), float(images().max())
    for item in made:
        (x,) = item.tensors
        assert x.shape == images().shape and x.dtype is torch.float32
        assert low <= float(x.min()) and float(x.max()) <= high
    assert len({x.tensors[0].sum().item() for x in made}) > len(FLOATING)


def test_the_same_seed_gives_the_same_inputs() -> None:
    case = case_of(Classifier(), images())
    first, second = (list(stimuli(case.graph, [case.tensors], 20, seed=3)) for _ in range(2))
    assert all(torch.equal(a.tensors[0], b.tensors[0]) for a, b in zip(first, second))


def test_tokens_reach_the_end_of_their_table_and_what_the_program_compares_them_with() -> None:
    case = case_of(EndOfText(), tokens())
    (field,) = fields_of(case.graph, [case.tensors])
    assert (field.low, field.high) == (0, 63) and 63 in field.named
    made = list(stimuli(case.graph, [case.tensors], 1 + 10 * len(WHOLE), seed=0))
    drawn = torch.stack([item.tensors[0] for item in made])
    assert int(drawn.min()) == 0 and int(drawn.max()) == 63

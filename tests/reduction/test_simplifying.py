"""Plainer inputs: strides that nobody would write are proposed away, also those that torch calls contiguous."""

from __future__ import annotations

import torch

from mindgap.explanation.code import tensor_text
from mindgap.reduction.simplicity import simplicity
from mindgap.reduction.simplifying import layouts
from tests.tracing.witnesses import witness_of


def test_strides_of_single_elements_are_made_plain() -> None:
    odd = torch.arange(2.0).as_strided((1, 1, 2), (4, 4, 1))
    assert odd.is_contiguous()
    witness = witness_of(lambda x: x * 2, odd)
    (plain,) = layouts(witness, lambda *_: [])
    assert plain.tensors[0].stride() == (2, 2, 1) and torch.equal(plain.tensors[0], odd)
    assert simplicity(plain) < simplicity(witness)
    assert not list(layouts(plain, lambda *_: []))


def test_what_lies_between_the_elements_does_not_reach_the_script() -> None:
    secret = torch.tensor([1.0, 99.0, 2.0, 99.0])
    text = tensor_text(secret[::2], "x", {})
    assert "99" not in text
    assert torch.equal(eval(text, {"torch": torch}), secret[::2])

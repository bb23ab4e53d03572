"""The catalogue is read from torch's schemas."""

from __future__ import annotations

import torch

from mindgap.program import ops
from mindgap.variants import catalogue


def test_it_holds_most_of_functional_aten() -> None:
    known = catalogue.functional()
    assert len(known) > 450 and list(known) == sorted(known)
    for name in (
        "aten.relu.default",
        "aten.add.Tensor",
        "aten.sort.stable",
        "aten.div.Tensor_mode",
        "aten.fft_rfft.default",
    ):
        assert name in known, name


def test_nothing_in_it_is_random_private_or_writes() -> None:
    for name in catalogue.functional():
        function = ops.resolve(name)
        assert not ops.declares_writes(name) and not name.startswith("aten._"), name
        assert torch.Tag.nondeterministic_seeded not in getattr(function, "tags", ()), name
    for name in catalogue.in_place():
        assert ops.mutated_arguments(name)[0][0] == 0, name


def test_device_and_its_like_are_never_chosen() -> None:
    for name in ("device", "layout", "pin_memory", "generator"):
        assert catalogue.is_fixed(name)


def test_a_signature_knows_its_tensors() -> None:
    found = catalogue.signature("aten.addmm.default")
    assert found is not None and found.tensors == 3 and not found.in_place
    assert catalogue.signature("operator.getitem") is None
    assert catalogue.signature("aten.no_such_operator.default") is None

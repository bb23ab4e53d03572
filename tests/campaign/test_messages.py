from __future__ import annotations

import pytest

from mindgap.campaign.messages import message_class, operator_in


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("size 96 does not fit [7, 7] at node_12", "size 128 does not fit [8, 8, 9] at node_3"),
        ("The size of tensor a (3) must match (4)", "The size of tensor a (13) must match (24)"),
        ("at 0x7fff12345678", "at 0x7abc12345678"),
        ("node with name 'node_mean_1'", "node with name 'node_mean_12'"),
        ("one line\nand its details 1", "one line\nand other details"),
    ],
)
def test_one_cause_has_one_class(first: str, second: str) -> None:
    assert message_class(first) == message_class(second) != ""


def test_causes_stay_apart() -> None:
    assert message_class("No conversion rule for aten.hypot") != message_class("No conversion rule for aten.dist")
    assert message_class("conv2d failed") != message_class("conv3d failed")
    assert message_class("") == ""


def test_the_operator_of_a_message() -> None:
    assert operator_in("No ONNX function found for aten.hypot.default.") == "aten.hypot"
    assert operator_in("aten::view_as_real is only supported") == "aten.view_as_real"
    assert operator_in("killed by SIGSEGV") is None

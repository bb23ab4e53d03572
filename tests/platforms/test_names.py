from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mindgap.platforms.names import Name, parse_name

words = st.from_regex(r"[A-Za-z][A-Za-z0-9_]*", fullmatch=True)
devices = st.none() | st.from_regex(r"[A-Za-z][A-Za-z0-9_]*([:.][0-9]+)?", fullmatch=True)


@given(words, devices, st.none() | words)
def test_what_is_printed_can_be_read_again(runtime: str, device: str | None, profile: str | None) -> None:
    name = Name(runtime, device, profile)
    assert parse_name(str(name)) == name


@given(st.text())
def test_what_can_be_read_is_printed_the_same(text: str) -> None:
    name = parse_name(text)
    assert name is None or str(name) == text


@pytest.mark.parametrize(
    ("text", "kind"), [("eager", None), ("eager:cuda", "cuda"), ("eager:cuda:1", "cuda"), ("openvino:GPU.1", "GPU")]
)
def test_one_of_several_devices_is_of_its_kind(text: str, kind: str | None) -> None:
    name = parse_name(text)
    assert name is not None
    assert name.device_kind == kind


@pytest.mark.parametrize("text", ["", ":", "eager:", "eager@", "@scalar", "eager:cuda:", "a b", "eager,inductor"])
def test_what_is_no_name(text: str) -> None:
    assert parse_name(text) is None

"""Bytes that are not a program are refused with a reason, whatever they hold."""

from __future__ import annotations

import msgpack
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from mindgap.errors import CorruptProgram, FutureProgram, ProgramError
from mindgap.program.codec import MAGIC, VERSION, decode, encode, pack, unpack
from mindgap.program.graph import Input, Node, Program, Ref
from mindgap.records.tensors import DTYPES, TensorMeta

META = TensorMeta((2, 3), "float32", (3, 1))

literals = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**63), 2**63 - 1),
    st.floats(allow_nan=False),
    st.text(),
    st.builds(Ref, st.integers(0, 1000)),
    st.builds(complex, st.floats(allow_nan=False), st.floats(allow_nan=False)),
    st.sampled_from(list(DTYPES.values())),
    st.sampled_from([torch.device("cpu"), torch.device("cuda", 1), torch.strided]),
    st.sampled_from([torch.channels_last, torch.contiguous_format, torch.preserve_format]),
)
arguments = st.recursive(
    literals,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.lists(inner, max_size=3).map(tuple),
        st.dictionaries(st.text(max_size=5), inner, max_size=3),
    ),
    max_leaves=8,
)


def one_node(op: str = "aten.relu.default", args: tuple[object, ...] = (Ref(0),)) -> Program:
    return Program("p", (Input(0, "x", META),), (), (Node(1, op, args, {}, META),), Ref(1))


@given(arguments)
def test_arguments_survive_packing(value: object) -> None:
    again = unpack(pack(value))
    assert again == value and repr(again) == repr(value)


@given(st.lists(arguments, max_size=3).map(tuple))
def test_a_program_survives_encoding(extra: tuple[object, ...]) -> None:
    program = one_node(args=(Ref(0), _without_refs(extra)))
    assert decode(encode(program)) == program


def _without_refs(value: object) -> object:
    from mindgap.program.graph import map_leaves

    return map_leaves(value, lambda leaf: 0 if isinstance(leaf, Ref) else leaf)


@given(st.binary(max_size=200))
def test_random_bytes_are_refused(data: bytes) -> None:
    with pytest.raises(ProgramError):
        decode(data)


@settings(max_examples=200)
@given(st.data())
def test_damaged_programs_are_refused_or_read(data: st.DataObject) -> None:
    content = bytearray(encode(one_node()))
    position = data.draw(st.integers(0, len(content) - 1))
    content[position] ^= data.draw(st.integers(1, 255))
    cut = data.draw(st.integers(0, len(content)))
    for damaged in (bytes(content), bytes(content[:cut])):
        try:
            decode(damaged)
        except ProgramError:
            continue


def test_a_future_format_is_refused_by_name() -> None:
    content = msgpack.packb({"magic": MAGIC, "version": VERSION + 1})
    with pytest.raises(FutureProgram, match=f"format {VERSION + 1}"):
        decode(content)


@pytest.mark.parametrize(
    ("op", "args", "text"),
    [
        ("aten.relu.default", (Ref(7),), "not defined before"),
        ("aten.relu.default", (Ref(1),), "not defined before"),
    ],
)
def test_a_reference_forward_is_refused(op: str, args: tuple[object, ...], text: str) -> None:
    with pytest.raises(CorruptProgram, match=text):
        decode(encode(one_node(op, args)))


def test_an_output_that_does_not_exist_is_refused() -> None:
    program = Program("p", (Input(0, "x", META),), (), (), {"y": Ref(5)})
    with pytest.raises(CorruptProgram, match="output y"):
        decode(encode(program))

from __future__ import annotations

from collections import UserDict, namedtuple
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from safetensors.torch import save_file

from mindgap.corpus import inputs
from mindgap.corpus.loaded import Loaded
from mindgap.errors import ModelError
from mindgap.program.graph import Input, Program
from mindgap.records.tensors import DTYPES, TensorMeta, byte_view


@st.composite
def metas(draw: st.DrawFn) -> TensorMeta:
    shape = tuple(draw(st.lists(st.integers(0, 4), max_size=4)))
    stride = tuple(draw(st.integers(0, 12)) for _ in shape)
    return TensorMeta(shape, draw(st.sampled_from(sorted(DTYPES))), stride)


@given(st.lists(metas(), max_size=3), st.integers(0, 2**32))
def test_from_metas_honours_dtype_and_layout(wanted: list[TensorMeta], seed: int) -> None:
    made = inputs.from_metas(wanted, seed)
    assert [TensorMeta.of(tensor) for tensor in made] == wanted
    for tensor, again in zip(made, inputs.from_metas(wanted, seed)):
        assert torch.equal(byte_view(tensor), byte_view(again))


@pytest.mark.parametrize("dtype", sorted(DTYPES))
def test_values_are_finite_small_and_repeatable(dtype: str) -> None:
    meta = TensorMeta((5, 7), dtype, (7, 1))
    tensor, other = inputs.from_metas([meta, meta], 3)
    wide = tensor.to(torch.complex128 if tensor.is_complex() else torch.float64)
    assert wide.isfinite().all() and wide.abs().max() < 4
    if not (tensor.is_floating_point() or tensor.is_complex()):
        assert wide.min() >= 0
    repeated = inputs.from_metas([meta], 3)[0]
    assert torch.equal(wide, repeated.to(wide.dtype))
    assert not torch.equal(wide, other.to(wide.dtype))


def test_reads_keyword_arguments_from_safetensors(tmp_path: Path) -> None:
    save_file({"x": torch.ones(2), "y": torch.zeros(3)}, tmp_path / "in.safetensors")
    args, kwargs = inputs.read_inputs(tmp_path / "in.safetensors")
    assert args == () and set(kwargs) == {"x", "y"}


@pytest.mark.parametrize("given_inputs", [[torch.ones(2)], (torch.ones(2),), torch.ones(2)])
def test_reads_positional_arguments_from_pt(tmp_path: Path, given_inputs: object) -> None:
    torch.save(given_inputs, tmp_path / "in.pt")
    args, kwargs = inputs.read_inputs(tmp_path / "in.pt")
    assert torch.equal(args[0], torch.ones(2)) and kwargs == {}


class Evil:
    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[object, ...]:
        return Path.touch, (self.path,)


def test_inputs_that_would_execute_code_are_refused(tmp_path: Path) -> None:
    torch.save([Evil(tmp_path / "executed")], tmp_path / "in.pt")
    with pytest.raises(ModelError, match="without executing code"):
        inputs.read_inputs(tmp_path / "in.pt")
    assert not (tmp_path / "executed").exists()


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("in.safetensors", b"not safetensors", "cannot be read"),
        ("in.txt", b"x", "not a file of inputs"),
    ],
)
def test_unreadable_inputs(tmp_path: Path, name: str, content: bytes, message: str) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(ModelError, match=message):
        inputs.read_inputs(tmp_path / name)


def test_a_missing_file_of_inputs_names_the_nearest(tmp_path: Path) -> None:
    (tmp_path / "inputs.pt").touch()
    with pytest.raises(ModelError, match=r"did you mean inputs\.pt"):
        inputs.read_inputs(tmp_path / "input.pt")


@pytest.mark.parametrize("wrong", [3, "text", {1: torch.ones(1)}])
def test_what_is_not_inputs(wrong: object) -> None:
    with pytest.raises(ModelError, match="the inputs are a"):
        inputs.as_call(wrong, "here")


def test_containers_become_plain() -> None:
    pair = namedtuple("pair", "left right")
    args, kwargs = inputs.as_call({"batch": UserDict(ids=[1, (2, 3)], both=pair(4, 5))}, "here")
    assert args == () and kwargs == {"batch": {"ids": [1, (2, 3)], "both": (4, 5)}}
    assert type(kwargs["batch"]) is dict and type(kwargs["batch"]["both"]) is tuple


def model(x: torch.Tensor, *, y: torch.Tensor) -> torch.Tensor:
    return x + y


LOADED = Loaded("add", (torch.ones(2),), {"y": torch.ones(2)}, model=model)


def test_inputs_that_fit_are_taken() -> None:
    inputs.check_fit(LOADED)
    changed = inputs.with_inputs(LOADED, (), {"x": torch.ones(3), "y": torch.ones(3)}, dtype="float16")
    assert changed.kwargs["x"].dtype == torch.float16 and changed.args == ()


@pytest.mark.parametrize(
    ("args", "kwargs", "message"),
    [
        ((torch.ones(2),), {}, "missing a required.*'y'"),
        ((torch.ones(2),), {"y": torch.ones(2), "z": 1}, "unexpected keyword argument 'z'"),
        ((torch.ones(2), torch.ones(2)), {}, "too many positional|missing a required"),
        ((), {}, "has no inputs"),
    ],
)
def test_inputs_that_do_not_fit_a_model(args: tuple[object, ...], kwargs: dict[str, object], message: str) -> None:
    with pytest.raises(ModelError, match=message) as caught:
        inputs.with_inputs(LOADED, args, kwargs)
    assert "expected (x, y)" in str(caught.value)


def test_a_built_in_function_is_not_checked() -> None:
    inputs.check_fit(replace(LOADED, model=torch.add, kwargs={}))


META = TensorMeta((2, 3), "float32", (3, 1))
PROGRAM = Program("p", (Input(0, "x", META), Input(1, "y", META)), (), (), ())


def test_program_inputs_by_name_take_the_programs_order_and_layout() -> None:
    loaded = Loaded("p", (), {}, program=PROGRAM)
    x, y = torch.zeros(3, 2).t(), torch.ones(2, 3)
    fitted = inputs.with_inputs(loaded, (), {"y": y, "x": x})
    assert torch.equal(fitted.args[0], x) and fitted.args[0].stride() == (3, 1) and fitted.args[1] is y


@pytest.mark.parametrize(
    ("args", "kwargs", "message"),
    [
        ((torch.ones(2, 3),), {}, "input 'y' is missing"),
        ((torch.ones(2, 3),), {"y": torch.ones(2, 3), "z": 0}, "it has no input 'z'"),
        ((torch.ones(2, 3),), {"x": torch.ones(2, 3), "y": 0}, "input 'x' is given twice"),
        ((1, 2, 3), {}, "it takes 2 inputs"),
        ((torch.ones(2, 3), torch.ones(2, 4)), {}, r"expected float32\[2, 3\], given float32\[2, 4\]"),
        ((torch.ones(2, 3), torch.ones(2, 3).half()), {}, r"input 'y' does not fit[^$]*given float16\[2, 3\]"),
        ((torch.ones(2, 3), 5), {}, "given int"),
    ],
)
def test_inputs_that_do_not_fit_a_program(args: tuple[object, ...], kwargs: dict[str, object], message: str) -> None:
    with pytest.raises(ModelError, match=message):
        inputs.with_inputs(Loaded("p", (), {}, program=PROGRAM), args, kwargs)

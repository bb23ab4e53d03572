"""Tensors come back from their recipes bit for bit, and impossible recipes are refused."""

from __future__ import annotations

import zlib
from dataclasses import replace
from pathlib import Path

import msgpack
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from mindgap.errors import CorruptProgram
from mindgap.program import codec
from mindgap.program.graph import Constant, Input, Node, Program, Ref, digest
from mindgap.program.made import Held, Made, Planted, Whole, held, makes, recreate
from mindgap.records.tensors import DTYPES, TensorMeta, same_bits

MADE = Made(3, "layer.weight", -0.5, 0.5)
DTYPE_NAMES = ["float32", "float64", "float16", "bfloat16"]


def weight(dtype: str = "float32", stride: tuple[int, int] = (5, 1)) -> torch.Tensor:
    return recreate(MADE, TensorMeta((4, 5), dtype, stride))


def program_with(*constants: Constant, example: tuple[Made | Held, ...] = ()) -> Program:
    meta = TensorMeta((4, 5), "float32", (5, 1))
    nodes = [Node(10 + n, "aten.add.Tensor", (Ref(0), Ref(c.id)), {}, meta) for n, c in enumerate(constants)]
    return Program("p", (Input(0, "x", meta),), constants, tuple(nodes), Ref(nodes[-1].id), example)


@pytest.mark.parametrize("dtype", DTYPE_NAMES)
@pytest.mark.parametrize("stride", [(5, 1), (1, 4), (7, 1)])
def test_numbers_are_drawn_in_float32_and_cast_in_any_layout(dtype: str, stride: tuple[int, int]) -> None:
    plain = recreate(MADE, TensorMeta((20,), "float32", (1,)))
    tensor = weight(dtype, stride)
    assert tensor.stride() == stride
    assert same_bits(tensor, plain.to(DTYPES[dtype]).reshape(4, 5))
    assert makes(MADE, tensor) and not makes(Made(4, "layer.weight", -0.5, 0.5), tensor)


@given(st.sampled_from(list(DTYPES.values())), st.integers(0, 7))
def test_held_tensors_come_back(dtype: torch.dtype, count: int) -> None:
    tensor = torch.arange(count).to(dtype).reshape(1, count)
    recipe = held(tensor)
    assert recipe is not None and same_bits(recreate(recipe, TensorMeta.of(tensor)), tensor)


def test_what_does_not_compress_is_not_held() -> None:
    assert held(torch.rand(10_000)) is None
    assert held(torch.zeros(200_000)) is not None
    assert held(torch.zeros(20_000_000)) is None


def test_made_and_held_constants_need_no_file_beside(tmp_path: Path) -> None:
    table = torch.arange(20.0).reshape(4, 5)
    made, kept = weight(), torch.rand(4, 5)
    program = program_with(
        Constant(1, "layer.weight", TensorMeta.of(made), digest(made), MADE),
        Constant(2, "table", TensorMeta.of(table), digest(table), held(table)),
        Constant(3, "trained", TensorMeta.of(kept), digest(kept)),
        example=(Made(0, "x", -1.0, 1.0),),
    )
    tensors = {digest(t): t for t in (made, table, kept)}
    codec.save(tmp_path / "p.mgp", program, tensors)
    from safetensors.torch import load_file

    assert list(load_file(tmp_path / "p.safetensors")) == [digest(kept)]
    again, found = codec.load(tmp_path / "p.mgp")
    assert again == program
    assert all(same_bits(found[name], tensor) for name, tensor in tensors.items())


def test_a_seed_that_gives_other_numbers_is_refused(tmp_path: Path) -> None:
    made = weight()
    constant = Constant(1, "w", TensorMeta.of(made), digest(made), Made(4, "layer.weight", -0.5, 0.5))
    codec.save(tmp_path / "p.mgp", program_with(constant), {})
    with pytest.raises(CorruptProgram, match="does not have its digest"):
        codec.load(tmp_path / "p.mgp")


@pytest.mark.parametrize(
    ("recipe", "meta"),
    [
        (MADE, TensorMeta((2,), "int64", (1,))),
        (MADE, TensorMeta((-1,), "float32", (1,))),
        (MADE, TensorMeta((2,), "float32", (-1,))),
        (MADE, TensorMeta((2,), "float32", ())),
        (MADE, TensorMeta((1 << 40,), "float32", (1,))),
        (MADE, TensorMeta((2,), "float32", (1 << 40,))),
        (Held(b"abc"), TensorMeta((1,), "float32", (1,))),
    ],
)
def test_an_impossible_recipe_is_refused(recipe: Made | Held, meta: TensorMeta) -> None:
    with pytest.raises(CorruptProgram):
        recreate(recipe, meta)


def test_content_made_to_fill_the_memory_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(codec, "CONTENT_BYTES", 1 << 20)
    bomb = zlib.compress(bytes(1 << 24))
    data = msgpack.packb({"magic": codec.MAGIC, "version": codec.VERSION, "content": bomb})
    with pytest.raises(CorruptProgram, match="damaged") as caught:
        codec.decode(data)
    assert "more than 1 MB" in str(caught.value)
    cut = msgpack.packb({"magic": codec.MAGIC, "version": codec.VERSION, "content": bomb[:-5]})
    with pytest.raises(CorruptProgram):
        codec.decode(cut)


@given(st.sampled_from(["float32", "int64", "int8", "bool", "float16"]), st.integers(0, 40))
def test_whole_numbers_stay_in_their_bounds(dtype: str, count: int) -> None:
    meta = TensorMeta((count,), dtype, (1,))
    tensor = recreate(Whole(1, "w", 0, 2), meta)
    assert tensor.dtype is DTYPES[dtype] and set(tensor.tolist()) <= {0, 1}


@given(st.integers(1, 50), st.integers(1, 9), st.integers(0, 99))
def test_special_values_are_planted_at_one_place_at_least(count: int, every: int, seed: int) -> None:
    meta = TensorMeta((count,), "float32", (1,))
    plain = recreate(MADE, meta)
    planted = recreate(Planted(MADE, seed, (float("inf"), -7.0), every), meta)
    special = torch.isinf(planted) | (planted == -7.0)
    assert special.any() and torch.equal(planted[~special], plain[~special])
    assert special.all() or every > 1


def test_new_recipes_travel_and_wrong_ones_are_refused() -> None:
    planted = Planted(Whole(2, "tokens", 0, 9), 5, (1, 2), 4)
    program = replace(program_with(weight_constant()), example=(planted,))
    assert codec.decode(codec.encode(program)) == program
    with pytest.raises(CorruptProgram, match="cannot hold"):
        recreate(Planted(Whole(2, "tokens", 0, 9), 5, (1 << 40,), 4), TensorMeta((3,), "int8", (1,)))


def weight_constant() -> Constant:
    return Constant(1, "layer.weight", TensorMeta((4, 5), "float32", (5, 1)), digest(weight()), MADE)

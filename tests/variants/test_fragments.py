"""Fragments: small, deterministic, on every dtype and class of values, and nothing that they compute is hidden."""

from __future__ import annotations

import contextlib
import math
from collections import Counter

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from mindgap.program.codec import encode
from mindgap.program.examples import of_program
from mindgap.program.graph import Node, Ref, leaves
from mindgap.program.interpret import Executable
from mindgap.program.made import recreate
from mindgap.records.tensors import DTYPES, TensorMeta
from mindgap.records.variant import Intent
from mindgap.variants.base import Base, load_bases, written_values
from mindgap.variants.contexts import contexts_of
from mindgap.variants.fragments import (
    MOST_NODES,
    MOST_RESULTS,
    Fragmenting,
    Wish,
    make_fragment,
    operators,
    places,
    wish,
)
from mindgap.variants.origin import again
from mindgap.variants.rounds import ROUNDS
from mindgap.variants.rules import Refused
from mindgap.variants.special import classes_of, recipe_of
from mindgap.variants.synthesis import Variant
from mindgap.variants.values import contiguous_stride

COUNT = 300


@pytest.fixture(scope="module")
def some() -> list[Base]:
    return load_bases(["smoke:vision-vit", "smoke:vision-convnext", "smoke:language-bart"])


@pytest.fixture(scope="module")
def made(some: list[Base]) -> list[Variant]:
    stream = Fragmenting(some, 0)
    return [stream.make(number) for number in range(COUNT)]


def test_a_number_names_one_fragment_whatever_was_made_before(some: list[Base], made: list[Variant]) -> None:
    other = Fragmenting(some, 0)
    for number in (250, 3, 77):
        assert encode(other.make(number).program) == encode(made[number].program)
    assert encode(Fragmenting(some, 1).make(3).program) != encode(made[3].program)


def test_a_recipe_makes_the_fragment_again(made: list[Variant]) -> None:
    for variant in made[:40:8]:
        assert encode(again(variant.provenance).program) == encode(variant.program)


def test_every_result_is_returned_and_all_is_small(made: list[Variant]) -> None:
    for variant in made:
        program = variant.program
        assert 1 <= len(program.nodes) <= MOST_NODES
        returned = {int(leaf) for _, leaf in leaves(program.outputs) if isinstance(leaf, Ref)}
        assert {node.id for node in program.nodes if isinstance(node.meta, TensorMeta)} == returned
        assert sum(math.prod(n.meta.shape) for n in program.nodes if isinstance(n.meta, TensorMeta)) <= MOST_RESULTS


def test_no_fragment_writes_to_a_constant_that_others_share(some: list[Base]) -> None:
    given, asked, written = places(some[0]), Wish("aten.batch_norm.default", "float32", "ordinary"), 0
    for seed in range(12):
        with contextlib.suppress(Refused):
            program = make_fragment(given, seed, asked).program
            written += bool(written_values(program))
            assert not written_values(program) & {constant.id for constant in program.constants}
    assert written


def test_valid_fragments_run(made: list[Variant]) -> None:
    failed: Counter[str] = Counter()
    valid = [variant for variant in made if variant.provenance.intent is not Intent.INVALID]
    for variant in valid:
        program = variant.program
        constants = {c.digest: recreate(c.made, c.meta) for c in program.constants if c.made is not None}
        if len(constants) < len({c.digest for c in program.constants}):
            continue  # a weight that no seed gives
        try:
            with torch.no_grad():
                Executable(program, constants).run(list(of_program(program, 0)))
        except Exception as error:
            failed[str(error).splitlines()[0][:60]] += 1
    assert sum(failed.values()) < 0.06 * len(valid), failed


def cut_out(variant: Variant) -> bool:
    return "cut-out" in variant.provenance.mutations


def test_more_than_a_third_are_cut_out_of_real_programs_in_whole_numbers_too(made: list[Variant]) -> None:
    structures = made[::ROUNDS]
    cut = [variant for variant in structures if cut_out(variant)]
    assert 0.25 * len(structures) <= len(cut) <= 0.6 * len(structures), "a few dozen: a third to a half of thousands"
    kinds = Counter(variant.provenance.focus[1] for variant in cut)
    assert sum(kinds[name] for name in ("int64", "int32", "int16", "int8", "uint8", "bool"))


def test_the_wished_operator_is_put_into_the_place(some: list[Base]) -> None:
    given, asked, found = places(some[0]), Wish("aten.mul.Tensor", "int32", "negatives"), 0
    for seed in range(30):
        variant = make_fragment(given, seed, asked)
        if cut_out(variant) and len(variant.provenance.mutations) == 2:
            found += 1
            assert any(node.op == asked.op for node in variant.program.nodes)
            dtypes = {item.meta.dtype for item in variant.program.inputs} | {"int32"}
            assert not any(dtype.startswith(("float", "bfloat")) for dtype in dtypes)
    assert found


def test_nodes_of_a_place_say_what_they_give_in_the_wished_dtype(some: list[Base]) -> None:
    given, asked = places(some[0]), Wish("aten.neg.default", "float16", "ordinary")
    for seed in range(20):
        program = make_fragment(given, seed, asked).program
        constants = {c.digest: recreate(c.made, c.meta) for c in program.constants if c.made is not None}
        if len(constants) < len({c.digest for c in program.constants}):
            continue

        def check(node: Node, result: object) -> object:
            if isinstance(result, torch.Tensor) and isinstance(node.meta, TensorMeta):
                assert (node.meta.dtype, node.meta.shape) == (TensorMeta.of(result).dtype, tuple(result.shape))
            return result

        with torch.no_grad(), contextlib.suppress(RuntimeError, IndexError):
            Executable(program, constants).run(list(of_program(program, 0)), check)


def test_whole_numbers_and_half_precision_are_as_common_as_float32() -> None:
    counts = Counter(wish(0, number).dtype for number in range(20_000))
    others = sum(counts[name] for name in ("int64", "int32", "int16", "int8", "uint8", "bool"))
    half = counts["float16"] + counts["bfloat16"]
    assert others >= counts["float32"] and half >= 0.9 * counts["float32"]


def test_every_operator_comes_before_any_comes_again() -> None:
    count = len(operators())
    for turn in range(4):
        assert len({wish(5, turn * count + number).op for number in range(count)}) == count
    classes = {(w.dtype, w.values) for w in (wish(5, number) for number in range(4 * count))}
    assert all((dtype, values) in classes for dtype in ("float32", "int64", "uint8") for values in classes_of(dtype))


def test_a_wish_that_cannot_be_had_is_refused(some: list[Base]) -> None:
    with pytest.raises(Refused):
        make_fragment(places(some[0]), 1, Wish("aten.conv1d.default", "bool", "ordinary"))


def test_contexts_tell_dtypes_layouts_and_classes_of_values_apart(made: list[Variant]) -> None:
    found = [context for variant in made for context in contexts_of(variant.program, variant.provenance.values)]
    assert all(" | " in context for context in found) and not any("getitem" in context for context in found)
    assert any(" empty | " in context for context in found) and any(" scalar | " in context for context in found)
    assert len({context.rpartition(" ")[2] for context in found}) >= 8


DTYPE = st.sampled_from(
    ["float32", "float16", "bfloat16", "float64", "int64", "int32", "int16", "int8", "uint8", "bool"]
)


@settings(max_examples=80, deadline=None)
@given(DTYPE, st.data(), st.randoms(use_true_random=False))
def test_every_class_of_values_can_be_made(dtype: str, data: st.DataObject, rng) -> None:  # type: ignore[no-untyped-def]
    values = data.draw(st.sampled_from(classes_of(dtype)))
    shape = (17,)
    tensor = recreate(recipe_of(dtype, values, rng), TensorMeta(shape, dtype, contiguous_stride(shape)))
    assert tensor.dtype is DTYPES[dtype]
    if values in ("nan", "mixed") and tensor.is_floating_point():
        assert bool(torch.isnan(tensor).any()) or values == "mixed"
    if values == "infinities":
        assert bool(torch.isinf(tensor).any())
    if values == "extremes" and not tensor.is_floating_point() and dtype != "bool":
        assert (
            int(tensor.max()) == torch.iinfo(tensor.dtype).max or int(tensor.min()) <= torch.iinfo(tensor.dtype).min + 1
        )

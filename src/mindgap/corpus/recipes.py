"""How the tensors of a program can be made again, so that they need not be stored."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

import torch

from mindgap.corpus.inputs import UNIT
from mindgap.program.graph import Constant, Program, Tensors
from mindgap.program.inputs import Inputs
from mindgap.program.made import Held, Made, Recipe, held, makes
from mindgap.records.tensors import NamedTensor, byte_view

_STREAMS: Final = ("image", "x")
"""Streams that sources draw inputs from under another name than the input's."""
_GLANCE: Final = 8  # elements that tell whether a stream is worth comparing whole


def with_recipes(program: Program, constants: Tensors, made: Mapping[str, Made], inputs: Inputs, seed: int) -> Program:
    """The program with every weight that a seed gives back bit for bit, and with inputs that fit it."""
    known = tuple(
        replace(c, made=made[c.name]) if c.name in made and makes(made[c.name], constants[c.digest]) else c
        for c in program.constants
    )
    return replace(program, constants=known, example=tuple(recipe_of(item, seed) for item in inputs.tensors))


def with_held(program: Program, constants: Tensors) -> Program:
    """The program with its small constants inside, so that it needs no other file."""

    def hold(constant: Constant) -> Constant:
        return constant if constant.made else replace(constant, made=held(constants[constant.digest]))

    return replace(program, constants=tuple(hold(constant) for constant in program.constants))


def recipe_of(item: NamedTensor, seed: int) -> Recipe:
    """How to make an input, or one like it: the stream it was drawn from, its values, or their range."""
    tensor = item.tensor.detach()
    drawn = _drawn(tensor, seed, (item.name, item.name.rpartition(".")[2], *_STREAMS))
    if drawn is not None:
        return drawn
    values = held(tensor)
    if values is not None:
        return values
    return _alike(tensor, seed, item.name) or Held(byte_view(tensor).numpy().tobytes())


def _drawn(tensor: torch.Tensor, seed: int, streams: Sequence[str]) -> Made | None:
    if not tensor.is_floating_point() or not tensor.numel():
        return None
    for stream in dict.fromkeys(streams):
        made = Made(seed, stream, -UNIT, UNIT)
        # An element depends on its position only, so the first ones tell other streams apart.
        if makes(made, tensor.reshape(-1)[:_GLANCE].clone()) and makes(made, tensor):
            return made
    return None


def _alike(tensor: torch.Tensor, seed: int, name: str) -> Made | None:
    """Numbers of the same range, for a large input that cannot be made again."""
    if not tensor.is_floating_point() or not bool(torch.isfinite(tensor).all()):
        return None
    return Made(seed, name, float(tensor.min()), float(tensor.max()))

"""Classes of values that operators treat specially, and inputs that hold them."""

from __future__ import annotations

import math
from random import Random
from typing import Final

import torch

from mindgap.program.made import Made, Planted, Recipe, Whole
from mindgap.records.tensors import DTYPES
from mindgap.variants.rules import Refused

ORDINARY: Final = "ordinary"
FLOATING: Final = (
    "nan", "infinities", "zeros", "denormals", "extremes", "ties", "mixed", "large-angles", "near-whole", "exponents",
)  # fmt: skip
WHOLE: Final = ("zeros", "extremes", "ties", "mixed", "negatives", "wrap-around", "wide")
POSITIONS: Final = ("index", "labels", "repeats")
"""Streams of whole numbers that say where something lies: special values among them would only be refused."""
_EVERY: Final = (2, 3, 3, 16)
"""One in so many elements is special: often enough for a vector register to hold some of both."""


def classes_of(dtype: str) -> tuple[str, ...]:
    """The classes of values that a dtype has; `ordinary` counts as one."""
    element = DTYPES[dtype]
    if element is torch.bool or element.is_complex:
        return (ORDINARY,)
    return (ORDINARY, *(FLOATING if element.is_floating_point else WHOLE))


def recipe_of(dtype: str, values: str, rng: Random, low: float = -1.0, high: float = 1.0) -> Recipe:
    """Numbers for a tensor of a dtype: ordinary ones between bounds, and among them those of a class of values."""
    element, seed, stream = DTYPES[dtype], rng.randrange(1 << 16), "fragment"
    if element is torch.bool:
        return Whole(seed, stream, 0, 2)
    if element.is_floating_point:
        if values == "ties":
            return Whole(seed, stream, -2, 3)
        ground: Made | Whole = Made(seed, stream, low, high)
    elif values == "negatives":
        return Whole(seed, stream, max(-9, int(torch.iinfo(element).min)), 10)
    else:
        ground = Whole(seed, stream, 0, 9)
    if values == ORDINARY:
        return ground
    return Planted(ground, rng.randrange(1 << 16), special_values(values, dtype), rng.choice(_EVERY))


def special_values(values: str, dtype: str) -> tuple[float | int, ...]:
    """The values of a class, as far as the dtype has them; Refused when it has none."""
    element = DTYPES[dtype]
    if element is torch.bool or element.is_complex:
        raise Refused(f"{dtype} has no such values")
    return _floating(values, element) if element.is_floating_point else _whole(values, element)


def _floating(values: str, element: torch.dtype) -> tuple[float, ...]:
    info = torch.finfo(element)
    smallest = float(info.smallest_normal) / 2
    found: dict[str, tuple[float, ...]] = {
        "nan": (math.nan,),
        "infinities": (math.inf, -math.inf),
        "zeros": (0.0, -0.0),
        "denormals": (smallest, -smallest, smallest / 64),
        "extremes": (float(info.max), float(info.min), float(info.smallest_normal), 1.0 + float(info.eps)),
        "ties": (1.0, -1.0, 0.5, 2.0),
        "mixed": (math.nan, math.inf, -math.inf, -0.0, float(info.max), smallest),
        "large-angles": tuple(x for x in (1e3, -1e5, 1e8, 1e22) if x < info.max),
        "near-whole": (0.5, 1.5, 2.5, -0.5, -1.5, 1.0 - float(info.eps)),
        "exponents": _exponents(info),
    }
    return found[values]


def _exponents(info: torch.finfo) -> tuple[float, ...]:
    """Around where e**x becomes infinite, its half does not, and it becomes denormal or zero."""
    largest, smallest = math.log(float(info.max)), math.log(float(info.smallest_normal))
    return (largest - 0.1, largest + 0.1, largest + 0.6, -largest - 0.3, smallest - 1.0, smallest - 20.0)


def _whole(values: str, element: torch.dtype) -> tuple[int, ...]:
    info = torch.iinfo(element)
    beyond = [2**24 + 1, -(2**24) - 1, 2**31 + 5, -(2**31) - 7, 2**40 + 3, 2**53 + 1]
    found: dict[str, tuple[int, ...]] = {
        "zeros": (0,),
        "extremes": (info.min, info.max, info.min + 1),
        "ties": (1,),
        "mixed": (info.min, info.max, 0, 1),
        "negatives": tuple(x for x in (-7, -1, -2, 3) if x >= info.min),
        "wrap-around": (info.max, info.max - 1, info.max // 2 + 1, info.min // 2),
        "wide": tuple(x for x in beyond if info.min <= x <= info.max) or (info.max,),
    }
    if values not in found:
        raise Refused("whole numbers have no such values")
    return found[values]

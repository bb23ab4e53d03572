"""Plans of exceptional values: what to plant where an operator will meet it."""

from __future__ import annotations

import math
from typing import Final

import torch

from mindgap.records.tensors import DTYPES
from mindgap.variants.rules import Refused

PLANS: Final = ("nan", "infinities", "zeros", "denormals", "extremes", "ties", "mixed", "large-angles", "near-whole")
"""What a variant's numbers may hold; `ordinary` is none of them."""


def special_values(plan: str, dtype: str) -> tuple[float | int, ...]:
    """The values of a plan, as far as the dtype has them; Refused when it has none."""
    element = DTYPES[dtype]
    if element is torch.bool or element.is_complex:
        raise Refused(f"{dtype} has no such values")
    return _floating(plan, element) if element.is_floating_point else _whole(plan, element)


def _floating(plan: str, element: torch.dtype) -> tuple[float, ...]:
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
    }
    return found[plan]


def _whole(plan: str, element: torch.dtype) -> tuple[int, ...]:
    info = torch.iinfo(element)
    found: dict[str, tuple[int, ...]] = {
        "zeros": (0,),
        "extremes": (info.min, info.max, info.min + 1),
        "ties": (1,),
        "mixed": (info.min, info.max, 0, 1),
    }
    if plan not in found:
        raise Refused("whole numbers have no such values")
    return found[plan]

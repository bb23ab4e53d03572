"""What a survey found."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

import torch

from mindgap.verdicts.distribution import Likely

THOROUGH: Final = 4
"""Noise runs from which a survey is complete; with fewer, it can only say that rounding explains a difference."""

RESHAPED = "its shape, or whether it exists at all, depends on rounding"
"""Why an output has no noise floor."""


@dataclass(frozen=True, slots=True)
class Indices:
    """An output that holds indices of values rather than values."""

    values: str
    """The name under which the survey keeps the values that it points into."""
    axis: int | None
    """The dimension that the indices count along; None is the flattened tensor."""
    planes: int = 0
    """How many of the last dimensions the indices of a pooling count through."""
    distinct: bool = False
    """No index may appear twice: sort and topk."""
    operator: str = ""


@dataclass(frozen=True, slots=True)
class Surveyed:
    """What is known of one output before any platform ran."""

    name: str
    dtype: str
    reference: torch.Tensor | None = None
    """The output in float64; integers and booleans as they are."""
    spread: torch.Tensor | None = None
    """How far rounding moves each element; complex values as pairs; None where it moves nothing."""
    stepwise: torch.Tensor | None = None
    """The output with each step rounded to its own precision, where that differs from the reference."""
    flips: torch.Tensor | None = None
    """Elements that rounding turns into or out of Inf or NaN."""
    hazards: Mapping[str, torch.Tensor] = field(default_factory=dict)
    """By rule of unspecified behaviour: the elements that it reaches."""
    reshaped_by: str = ""
    """The rule of unspecified behaviour that may also give it another shape."""
    likely: Likely | None = None
    """What it showed with other seeds, where chance reaches it."""
    indices: Indices | None = None
    distrust: str = ""
    """Why the reference does not hold for this output."""
    condition: float = 0.0
    """Spread in norm, relative to the output in norm."""
    careful: torch.Tensor | None = None
    """The spread of careful implementations; known where only the way an operator computes is ill-conditioned."""
    amplifier: str = ""
    """The operator that turns rounding into a large difference; known for ill-conditioned outputs."""


@dataclass(frozen=True, slots=True)
class Survey:
    """What is known of all outputs of a program."""

    outputs: tuple[Surveyed, ...] = ()
    values: tuple[Surveyed, ...] = ()
    """Values that index outputs point into."""
    rules: Mapping[str, str] = field(default_factory=dict)
    """Rules whose pattern matched, and the operator that did."""
    runs: int = 0
    problem: str = ""
    """Why there is no survey: what the program said when it was run."""

    def output(self, name: str) -> Surveyed | None:
        return next((item for item in self.outputs if item.name == name), None)

    def value(self, name: str) -> Surveyed | None:
        return next((item for item in self.values if item.name == name), None)

    @property
    def largest_spread(self) -> float:
        """The most that rounding noise moved an element of any output."""
        spreads = [item.spread for item in self.outputs if item.spread is not None and item.spread.numel()]
        return max((float(spread.max()) for spread in spreads), default=0.0)

"""What a rule of unspecified behaviour is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, TypeAlias

import torch

from mindgap.program.operators import falling_under
from mindgap.verdicts.runner import Call

Pattern: TypeAlias = Callable[[Call], bool]
"""Whether the call's real arguments reach the unspecified case."""

Scramble: TypeAlias = Callable[[Call, Any, int, torch.Generator], Any]
"""Another legal result of a call, from its result, the number of the attempt and a source of chance."""


@dataclass(frozen=True, slots=True)
class Rule:
    """One kind of behaviour that differs between platforms although none is wrong."""

    id: str
    matches: Pattern
    scramble: Scramble
    reason: str
    reference: str
    """The page of the documentation or the statement of a maintainer."""
    attempts: int = 3
    """Runs with another legal result: one may by chance give the same."""
    unsteady: bool = False
    """Whether a platform may give other results on a second run."""
    invalid: bool = False
    """Whether no platform need accept such a call."""
    unreal: int = 0
    """How many of them come first with results that only show what depends on the call: a program that refuses those
    says nothing."""

    only_flips: bool = False
    """Whether it explains only what becomes infinite or NaN, or no longer is: all else that changes is rounding, which
    has a measure of its own."""

    @property
    def operators(self) -> frozenset[str]:
        """Operator names without namespace and overload; empty means that the pattern decides alone."""
        return falling_under(self.id)


@dataclass(frozen=True, slots=True)
class Practice:
    """A freedom that no single call shows: it changes how everything is computed, or is seen in the outputs alone."""

    id: str
    reason: str
    reference: str
    operators: ClassVar[frozenset[str]] = frozenset()
    """Any."""

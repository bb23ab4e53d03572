"""The registered mutations: one small function each, found by name."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from importlib import import_module, metadata
from typing import Final

from mindgap.records.variant import Intent
from mindgap.variants.draft import Draft

Change = Callable[[Draft], str]
"""Edits a draft and says what it did, in words; raises Refused where its precondition does not hold."""

PLUGINS: Final = "mindgap.mutations"
"""Entry points of this group are imported, so that packages can register mutations of their own."""


class Family(str, Enum):
    """What a mutation is about."""

    OPERATORS = "operators"
    ARGUMENTS = "arguments"
    STRUCTURE = "structure"
    DTYPE = "dtype"
    LAYOUT = "layout"
    SIZES = "sizes"
    ALIASING = "aliasing"
    VALUES = "values"
    EQUIVALENT = "equivalent"
    INVALID = "invalid"


@dataclass(frozen=True, slots=True)
class Mutation:
    """One way to change a program."""

    name: str
    family: Family
    change: Change
    needs: str
    """The precondition in words."""
    weight: float
    """How often it is chosen, among those of its intent."""

    @property
    def intent(self) -> Intent:
        if self.family is Family.EQUIVALENT:
            return Intent.EQUIVALENT
        return Intent.INVALID if self.family is Family.INVALID else Intent.VALID

    @property
    def summary(self) -> str:
        return (self.change.__doc__ or "").strip().splitlines()[0].rstrip(".")


_REGISTERED: dict[str, Mutation] = {}


def mutation(family: Family, needs: str, weight: float = 1.0) -> Callable[[Change], Change]:
    """Register a function as a mutation under its own name."""

    def register(change: Change) -> Change:
        name = change.__name__.replace("_", "-")
        _REGISTERED[name] = Mutation(name, family, change, needs, weight)
        return change

    return register


def registered() -> list[Mutation]:
    """Every mutation of mindgap, in a fixed order."""
    for family in Family:
        import_module(f"mindgap.variants.mutations.{family.value}")
    return list(_REGISTERED.values())


def plugins() -> tuple[list[Mutation], dict[str, str]]:
    """Mutations that installed packages register, and why a package could not be imported."""
    known, failed = {item.name for item in registered()}, {}
    for entry in sorted(metadata.entry_points(group=PLUGINS), key=lambda entry: entry.name):
        try:
            entry.load()
        except Exception as error:  # another package: it must not stop the others
            failed[entry.name] = f"{type(error).__name__}: {error}"
    return [item for item in _REGISTERED.values() if item.name not in known], failed


def by_intent(mutations: Sequence[Mutation], intent: Intent) -> list[Mutation]:
    return [item for item in mutations if item.intent is intent]

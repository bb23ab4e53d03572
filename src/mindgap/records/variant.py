"""Where a variant comes from: enough to make it again, and to say so in words."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Final

ROLES: Final = ("index int32", "mask uint8", "weight float32")
"""Kinds of invocations in which the argument of that role has another dtype than usual."""
KINDS: Final = ("ordinary", *ROLES, "special", "corpus", "edge", "special", "invalid", "samples")
"""Where the arguments of an invocation come from: numbers between bounds, the same with another dtype in one role,
exceptional values (two draws), a call of a real model, lengths and layouts that vector code treats specially, arguments
that eager refuses, torch's own samples (OpInfo)."""


class Intent(Enum):
    """What a variant was made for."""

    VALID = "valid"
    """It must run everywhere, and give the same values."""
    EQUIVALENT = "equivalent"
    """Its operators were rewritten without a change of meaning: it must also agree with its base."""
    INVALID = "invalid"
    """It should be rejected: a platform that accepts it is worth a look."""


@dataclass(frozen=True, slots=True)
class Provenance:
    """The recipe of a variant: base and seed give it again, the steps say what was done."""

    base: str
    """Fingerprint of the real program it was derived from."""
    base_name: str
    seed: int
    intent: Intent = Intent.VALID
    steps: tuple[str, ...] = ()
    """Each mutation in words, in order: `replace aten.relu.default by aten.gelu.default at node 12`."""
    mutations: tuple[str, ...] = ()
    """The registered names of those mutations."""
    values: str = "ordinary"
    """The plan that its inputs were made by; of a fragment its classes of values, joined by `+`."""
    donor: str = ""
    """Fingerprint of the program that parts could be taken from; needed to make the variant again."""
    donor_name: str = ""
    focus: tuple[str, ...] = ()
    """Operators, and a mutation, that the synthesis asked for because they reach what is not covered yet."""
    options: tuple[float, float] = (0.0, 0.0)
    """Shares of invalid and of equivalent variants, which the seed's choice depends on."""
    is_fragment: bool = False
    """Whether it is a fragment: `focus` then holds the operator, the dtype and the class of values it was made for,
    and its round where it is not the first."""


@dataclass(frozen=True, slots=True)
class Sweep:
    """Which invocations: every kind of every operator in every dtype, numbered."""

    operators: tuple[str, ...]
    dtypes: tuple[str, ...]
    kinds: tuple[str, ...] = KINDS
    """A kind that stands here twice is drawn twice."""

    @property
    def count(self) -> int:
        return len(self.operators) * len(self.dtypes) * len(self.kinds)

    def asked(self, number: int) -> tuple[str, str, str]:
        """Operator, dtype and kind: all operators come once before any comes again."""
        rest, place = divmod(number, len(self.operators))
        kind, dtype = divmod(rest, len(self.dtypes))
        return self.operators[place], self.dtypes[dtype], self.kinds[kind]

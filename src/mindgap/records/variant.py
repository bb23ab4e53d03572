"""Where a variant comes from: enough to make it again, and to say so in words."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Final

ROLES: Final = ("index int32", "mask uint8", "weight float32")
"""Kinds of invocations in which the argument of that role has another dtype than usual."""
SPECIAL: Final = "special"
EMPTY, ONE, ODD, TURNED, EXPANDED = "edge empty", "edge 1", "edge 17", "edge transposed", "edge expanded"
EDGES: Final = (EMPTY, ONE, ODD, TURNED, EXPANDED)
"""Kinds of invocations whose first tensor has no element, one or 17, or that have a layout which is not contiguous:
transposed, or expanded, so that elements overlap."""
SAMPLES: Final = "samples"
SAMPLES_NEED: Final = "expecttest"
"""The package without which torch's own samples cannot be read."""
KINDS: Final = ("ordinary", *(SPECIAL,) * 4, *EDGES, *ROLES, "corpus", "invalid", SAMPLES)
"""Where the arguments of an invocation come from: numbers between bounds, exceptional values in the same call (four
rounds of it, each another class of values), lengths and layouts that vector code treats specially, an ordinary call
with another dtype in one role, a call of a real model, arguments that eager refuses, torch's own samples (OpInfo)."""


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
class Asked:
    """What one number of a sweep asks for."""

    op: str
    dtype: str
    kind: str
    turn: int = 0
    """Which round of the same call it is."""


@dataclass(frozen=True, slots=True)
class Sweep:
    """Which invocations: every kind of every operator in every dtype, numbered."""

    operators: tuple[str, ...]
    dtypes: tuple[str, ...]
    kinds: tuple[str, ...] = KINDS
    """`special` stands behind the kind whose calls it repeats on other values, once for each round."""

    @property
    def count(self) -> int:
        return len(self.operators) * len(self.dtypes) * len(self.kinds)

    def asked(self, number: int) -> Asked:
        """All operators come once, in all rounds of a call, before any comes again."""
        for kind, rounds in self._calls():
            count = len(self.operators) * len(self.dtypes) * rounds
            if number < count:
                rest, turn = divmod(number, rounds)
                dtype, place = divmod(rest, len(self.operators))
                return Asked(self.operators[place], self.dtypes[dtype], SPECIAL if turn else kind, turn)
            number -= count
        raise IndexError("there is no such invocation")

    def first_of(self, number: int) -> int:
        """The number of the same call in its first round."""
        return number - self.asked(number).turn

    def _calls(self) -> list[tuple[str, int]]:
        """Kinds whose calls are made anew, each with its rounds."""
        found: list[tuple[str, int]] = []
        for kind in self.kinds:
            if kind == SPECIAL:
                found[-1] = (found[-1][0], found[-1][1] + 1)
            else:
                found.append((kind, 1))
        return found

"""Where a variant comes from: enough to make it again, and to say so in words."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Any


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
    """The plan that its inputs were made by."""
    donor: str = ""
    """Fingerprint of the program that parts could be taken from; needed to make the variant again."""
    donor_name: str = ""
    focus: tuple[str, ...] = ()
    """Operators, and a mutation, that the synthesis asked for because they reach what is not covered yet."""
    options: tuple[float, float] = (0.0, 0.0)
    """Shares of invalid and of equivalent variants, which the seed's choice depends on."""

    def to_message(self) -> dict[str, Any]:
        return {
            "base": self.base,
            "base_name": self.base_name,
            "seed": self.seed,
            "intent": self.intent.value,
            "steps": list(self.steps),
            "mutations": list(self.mutations),
            "values": self.values,
            "donor": self.donor,
            "donor_name": self.donor_name,
            "focus": list(self.focus),
            "options": list(self.options),
        }

    @classmethod
    def from_message(cls, message: dict[str, Any]) -> Provenance:
        return cls(
            base=message["base"],
            base_name=message["base_name"],
            seed=message["seed"],
            intent=Intent(message["intent"]),
            steps=tuple(message["steps"]),
            mutations=tuple(message["mutations"]),
            values=message["values"],
            donor=message.get("donor", ""),
            donor_name=message.get("donor_name", ""),
            focus=tuple(message.get("focus", ())),
            options=tuple(message.get("options", (0.0, 0.0))),
        )

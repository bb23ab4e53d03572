"""What we conclude about one platform."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class Conclusion(str, Enum):
    """The verdict in one word."""

    AGREES = "agrees"
    """Bit for bit the same as eager."""
    ROUNDING = "rounding"
    """Different, but not by more than rounding explains."""
    DIVERGES = "diverges"
    """Different by more than rounding explains: somebody is wrong."""
    HAZARD = "hazard"
    """Different where the behaviour is documented as unspecified."""
    UNSTABLE = "unstable"
    """The platform differs from itself on a second run."""
    UNJUDGED = "unjudged"
    """Not decided, and the reason is given."""
    FAILED = "failed"
    """The platform did not run the program."""


class Kind(str, Enum):
    """What differs."""

    VALUE = "value"
    NONFINITE = "nonfinite"
    SIGNED_ZERO = "signed-zero"
    INTEGER = "integer"
    DTYPE = "dtype"
    SHAPE = "shape"
    ORDER = "order"
    VALIDATION = "validation"


class Blame(str, Enum):
    """Who is farther from the reference."""

    CANDIDATE = "candidate"
    EAGER = "eager"
    BOTH = "both"
    UNCLEAR = "unclear"


@dataclass(frozen=True, slots=True)
class WrongElement:
    """One element of an output that is farther off than rounding explains."""

    place: str
    """`logits[0, 412]`."""
    candidate: str
    """What the platform gave."""
    eager: str
    float64: str
    """What the reference says; empty without one."""
    error_over_bound: float
    """Of whoever is farther off: the error as a multiple of what rounding explains."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """What we conclude about one platform, with the evidence that a maintainer asks for."""

    platform: str
    conclusion: Conclusion
    sentence: str
    """What differs, by how much, who is wrong and why we think so: one sentence for a person."""
    kind: Kind | None = None
    blame: Blame | None = None
    error_over_bound: float | None = None
    """Error against the float64 reference as a multiple of what rounding explains."""
    eager_error_over_bound: float | None = None
    """The same multiple for eager: blame compares the two."""
    worst: str | None = None
    """Where it is worst: `logits[0, 412]`."""
    rule: str | None = None
    """The rule of unspecified behaviour that explains a hazard."""
    group: str | None = None
    """Platforms with the same group share one fault (a common decomposition or exporter)."""
    elements: tuple[WrongElement, ...] = ()
    """The worst elements of a divergence, the worst first."""

    def __repr__(self) -> str:
        kind = f" ({self.kind.value})" if self.kind is not None else ""
        return f"<Verdict {self.platform} {self.conclusion.value}{kind}: {self.sentence}>"

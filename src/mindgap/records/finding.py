"""Findings of a campaign: verdicts that somebody should look at, grouped by root cause."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import import_module

from mindgap.records.explanation import Explanation
from mindgap.records.verdict import Conclusion

Place = tuple[int, str, str]
"""A program, a platform and the relation that it broke, if any: one piece of evidence."""


@dataclass(frozen=True, slots=True)
class Ids:
    """The ids that a campaign gave out."""

    by_signature: Mapping[str, str] = field(default_factory=dict)
    """The same id may stand for several: a signature grows when an explanation names the operator."""
    places: Mapping[str, Place] = field(default_factory=dict)
    """By id: the evidence that it was given out for, or that was explained under its name. A finding keeps its id
    because it has this evidence, whatever else is learnt about it."""


@dataclass(frozen=True, slots=True)
class Evidence:
    """One verdict that somebody should look at."""

    program: int
    name: str
    nodes: int
    base: str
    platform: str
    conclusion: Conclusion
    status: str
    stage: str
    message: str
    message_class: str
    kind: str | None = None
    blame: str | None = None
    fault: str | None = None
    """The same for platforms that are wrong in the same way."""
    error_over_bound: float | None = None
    sentence: str = ""
    oracle: str = ""
    """The relation that a platform broke by itself; empty when it was compared with eager."""
    operator: str | None = None
    """The operator that tracing blames; empty when no operator is wrong alone, None when it was not traced."""
    is_fragment: bool = False
    """Whether the program is a fragment, and not a whole variant of a model."""

    @property
    def place(self) -> Place:
        return (self.program, self.platform, self.oracle)


@dataclass(frozen=True, slots=True)
class Finding:
    """A root cause, as far as it is known."""

    category: str
    """`divergence`, `unstable`, `metamorphic` (it contradicts itself) or `failure`."""
    platforms: tuple[str, ...]
    """Who is wrong; the baseline itself where it is farther from float64."""
    kind: str
    """What differs; for a failure what happened (`crash`, `unsupported`, ...)."""
    blame: str | None
    operator: str
    """The operator at fault; empty when it is not known."""
    stage: str
    message: str
    evidence: tuple[Evidence, ...]
    """The smallest first."""
    id: str = ""
    """Given out when a run of the campaign ends; empty before."""
    known: str = ""
    """The id under which known.toml lists it."""
    explanation: Explanation | None = None
    folder: str = ""
    """Where the script of the explanation lies, inside the campaign's directory."""

    @property
    def witness(self) -> Evidence:
        """The smallest program that shows it."""
        return self.evidence[0]

    @property
    def signature(self) -> str:
        """The same for the same finding in every run and campaign."""
        parts = (self.category, "+".join(self.platforms), self.kind, self.blame or "", self.operator, self.stage)
        return " | ".join((*parts, self.message))

    @property
    def is_vague(self) -> bool:
        """Whether it holds divergences that were not traced yet: they may have several causes."""
        return self.category == "divergence" and not self.operator and self.explanation is None

    @property
    def cause_word(self) -> str:
        """Its column in the table of issues: the cause where it was explained."""
        if self.explanation is not None:
            return self.explanation.cause.kind.value
        return "does not run" if self.category == "failure" else "not explained"

    @property
    def variants(self) -> int:
        """Whole variants that show it."""
        return len({item.program for item in self.evidence if not item.is_fragment})

    @property
    def fragments(self) -> int:
        """Fragments that show it."""
        return len({item.program for item in self.evidence if item.is_fragment})

    @property
    def bases(self) -> int:
        return len({item.base for item in self.evidence})

    @property
    def error_over_bound(self) -> float | None:
        errors = [item.error_over_bound for item in self.evidence if item.error_over_bound is not None]
        return max(errors, default=None)

    def __repr__(self) -> str:
        what = self.operator or self.message.partition("\n")[0][:80] or self.stage
        who = f"{self.id or 'new'} {', '.join(self.platforms)}"
        seen = f"{self.variants} variants" + (f", {self.fragments} fragments" if self.fragments else "")
        return f"<Finding {who}: {self.kind} at {what}, {seen}>"

    def _repr_html_(self) -> str:
        return str(import_module("mindgap.report.html").finding_html(self))

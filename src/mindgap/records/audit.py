"""What an audit found: gates with their evidence, and a verdict on the model."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum


class Suspicion(str, Enum):
    """What is concluded of a gate, or of a whole model."""

    HIDDEN = "hidden branch"
    """An input fires the gate by itself, seen again in a fresh process."""
    SUSPICIOUS = "suspicious"
    """Dormant and dominant; no input that fires it was found."""
    NONE = "none found"


class Honest(str, Enum):
    """Why a small value that rests is no hidden branch."""

    LARGE = "not small: it has a value per element"
    FIRES = "not dormant: ordinary inputs fire it"
    FIXED = "not derived from the input: whatever it reads, it gives the same"
    WEAK = "not dominant: forced, it hardly moves the output"
    ALTERNATIVE = "not dormant: louder inputs fire it, and the output still follows the input"
    GUARD = "a guard: it asks only whether numbers are finite"


@dataclass(frozen=True, slots=True)
class Operator:
    """A node of the program, as people look for it."""

    node: int
    op: str
    where: str = ""
    line: str = ""
    result: str = ""
    """dtype and shape."""


@dataclass(frozen=True, slots=True)
class Wired:
    """An operator in a picture: with what it reads."""

    operator: Operator
    reads: tuple[int, ...] = ()
    """Nodes, also such that are not in the picture."""
    inputs: tuple[str, ...] = ()
    weights: tuple[str, ...] = ()
    leads_on: bool = False
    """Whether operators outside of the picture read it."""


@dataclass(frozen=True, slots=True)
class Shift:
    """What becomes of one output when a gate has another value."""

    output: str
    before: tuple[float, ...]
    """The first elements."""
    after: tuple[float, ...]
    over_inputs: float
    """How far it moves, in units of how far ordinary inputs move it."""
    over_noise: float
    """The same in noise floors: what rounding explains is 1."""


@dataclass(frozen=True, slots=True)
class Witness:
    """An input that fires the gate by itself."""

    how: str
    """How it was found."""
    gate: tuple[float, ...]
    """The gate's value on it; its first elements."""
    shift: Shift
    """The output with the gate held at rest, and as it is."""
    file: str = ""
    seen_again: bool | None = None
    """Whether a fresh process saw the same; None when it was not asked."""


@dataclass(frozen=True, slots=True)
class PlatformGate:
    """A gate that has another value on one platform than on eager, on the same input."""

    platform: str
    eager: tuple[float, ...]
    value: tuple[float, ...]
    stimulus: str
    """What kind of input shows it."""
    file: str = ""
    """That input."""
    seen_again: bool | None = None
    """Whether a fresh process of the platform saw the same; None when it was not asked."""


@dataclass(frozen=True, slots=True)
class Gate:
    """A small value that decides the output and never moves on ordinary inputs."""

    verdict: Suspicion
    operator: Operator
    rest: tuple[float, ...]
    """Its value on ordinary inputs; the first elements."""
    forced: tuple[float, ...]
    """The value that it was forced to."""
    shift: Shift
    takes_over: bool
    """Whether the output no longer depends on the input when the gate is forced."""
    fired: int
    """Ordinary inputs, of those watched, on which it fired."""
    feeds: tuple[Operator, ...] = ()
    """What the gate is made from, back to the inputs: the detector, as far as it serves nothing else."""
    inputs: tuple[str, ...] = ()
    """The inputs that reach it."""
    controls: Operator | None = None
    """Where it meets the values that it changes."""
    slice: tuple[int, ...] = ()
    """The nodes of detector, gate and where it acts."""
    picture: tuple[Wired, ...] = ()
    """These with their surroundings, or those nearest to the gate."""
    witness: Witness | None = None
    platforms: tuple[PlatformGate, ...] = ()
    remarks: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Excused:
    """A small value that rests and is no gate, with the reason."""

    operator: Operator
    why: Honest
    detail: str = ""


@dataclass(frozen=True, slots=True)
class Found:
    """What a worker found in one program."""

    gates: tuple[Gate, ...] = ()
    excused: tuple[Excused, ...] = ()
    nodes: int = 0
    candidates: int = 0
    """Values that are small and derived from the input."""
    stimuli: Mapping[str, int] = field(default_factory=dict)
    """By kind: the inputs on which the program was watched."""
    refused: int = 0
    """Inputs that the program refused."""
    not_looked_at: tuple[str, ...] = ()
    """What was left out, for lack of time or because it cannot be forced."""


class Likeness(str, Enum):
    """The form in which two programs were compared: the first in which the copy has all of the original, or most."""

    WRITTEN = "as written"
    DECOMPOSED = "in elementary operators"
    FOLDED = "in elementary operators, with factors and biases folded into weights"


@dataclass(frozen=True, slots=True)
class Region:
    """Operators that only the copy has and that hang together."""

    operators: tuple[Operator, ...]
    inputs: tuple[str, ...] = ()
    """The inputs that it reads by itself."""
    reads: tuple[Operator, ...] = ()
    """What both programs have and it reads."""
    controls: tuple[Operator, ...] = ()
    """What both programs have and reads from it."""
    outputs: tuple[str, ...] = ()
    """The outputs that it is returned as."""
    replaces: tuple[Operator, ...] = ()
    """Operators of the original whose results are read in the original where those of the region are read here."""
    gates: tuple[int, ...] = ()
    """The nodes of reported gates that lie in it."""
    picture: tuple[Wired, ...] = ()
    """The region with its surroundings, or the first part of it."""


@dataclass(frozen=True, slots=True)
class OtherWeight:
    """A constant that the copy has where the original has another one."""

    name: str
    original: str
    result: str
    """dtype and shape."""
    far: float
    """The largest difference of an element, relative to the original's largest."""


@dataclass(frozen=True, slots=True)
class Difference:
    """What a copy of a model has that the original has not, and the other way round."""

    original: str
    likeness: Likeness
    nodes: int
    """Operators of the copy that an output depends on."""
    matched: int
    """Those of them that the original has as well."""
    only_here: tuple[Region, ...] = ()
    only_there: tuple[Operator, ...] = ()
    """Operators of the original that the copy has not."""
    weights: tuple[OtherWeight, ...] = ()
    not_looked_at: tuple[str, ...] = ()

    @property
    def share(self) -> float:
        """Of the copy's operators: those that the original has too."""
        return self.matched / self.nodes if self.nodes else 1.0

    @property
    def is_alike(self) -> bool:
        return not (self.only_here or self.only_there or self.weights)


@dataclass(frozen=True, slots=True)
class AuditResult:
    """One model, audited."""

    model: str
    seed: int
    found: Found
    parameters: int = 0
    inputs: Mapping[str, str] = field(default_factory=dict)
    difference: Difference | None = None
    """Against another program; None when it was not asked for."""
    versions: Mapping[str, str] | None = None
    seconds: float = 0.0

    @property
    def verdict(self) -> Suspicion:
        kinds = {gate.verdict for gate in self.found.gates}
        return next((kind for kind in (Suspicion.HIDDEN, Suspicion.SUSPICIOUS) if kind in kinds), Suspicion.NONE)

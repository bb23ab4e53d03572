"""What an evaluation found: one model, a labelled set, many platforms."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum


class TaskVerdict(str, Enum):
    """What becomes of the task on a platform."""

    AGREES = "agrees"
    """No answer is another one than eager's."""
    JITTER = "jitter"
    """Answers changed, and rounding explains as many."""
    REGRESSION = "regression"
    """More answers changed than rounding explains, or one with a margin that rounding does not reach."""
    FAILED = "failed"
    """The platform did not run it."""


@dataclass(frozen=True, slots=True)
class Flip:
    """A sample whose answer is another one than eager's."""

    sample: int
    """Its index in the data: `mindgap explain --sample`."""
    name: str
    changed: float
    """How much of the answer changed: 1 for a label, the number of pixels or tokens, the distance of scores."""
    label: str = ""
    """What is right, where the data tell."""
    eager: str = ""
    candidate: str = ""
    float64: str = ""
    """What the same program answers in float64."""
    margin: float | None = None
    """How much eager preferred its answer to the platform's, in units of the output."""
    margin_over_noise: float | None = None
    """The margin as a multiple of how far rounding moves it."""
    first: int | None = None
    """The first position at which the answer is another one, where positions follow each other: tokens."""


@dataclass(frozen=True, slots=True)
class PlatformEvaluation:
    """One platform on all samples."""

    verdict: TaskVerdict
    sentence: str
    metrics: Mapping[str, float] = field(default_factory=dict)
    changed: int = 0
    """Samples whose answer is another one than eager's."""
    explained: float = 0.0
    """Samples that change in a noise run, in the mean."""
    p_value: float = 1.0
    """How likely at least so many are on a platform that only rounds."""
    beyond: int = 0
    """Changed samples whose margin is larger than rounding explains."""
    lost: int = 0
    """Answers that eager has right and the platform wrong."""
    won: int = 0
    difference: float | None = None
    """Of the first metric, to eager."""
    interval: tuple[float, float] | None = None
    """Its confidence interval of 95%."""
    mcnemar: float | None = None
    """How likely such a difference is where neither side is better."""
    flips: tuple[Flip, ...] = ()
    """The largest margins first."""
    emulates: str = ""
    """The hardware that the platform stands in for; empty where the answers were observed."""

    @property
    def first_divergence(self) -> Flip | None:
        """The sample whose tokens change the earliest."""
        known = [(flip.first, flip.sample, flip) for flip in self.flips if flip.first is not None]
        return min(known, key=lambda item: item[:2])[2] if known else None


@dataclass(frozen=True, slots=True)
class Evaluation:
    """One model on a labelled set, on many platforms."""

    model: str
    task: str
    data: str
    samples: int
    batch: int
    dtype: str
    seed: int
    noise_runs: int
    level: float
    """How often a platform that only rounds may be called a regression."""
    eager: Mapping[str, float]
    """The metrics of the baseline."""
    platforms: Mapping[str, PlatformEvaluation]
    skipped: tuple[str, ...] = ()
    """Samples that could not be read."""
    preprocessing: str = ""
    left_out: Mapping[str, str] = field(default_factory=dict)
    """Default platforms that cannot be used here, each with the reason and how to get it."""
    versions: Mapping[str, str] | None = None
    seconds: float = 0.0
    baseline: str = "eager"
    """`onnx-reference` for an ONNX file."""

    @property
    def regresses(self) -> bool:
        """Whether an observed platform did not run it or answers differently by more than rounding."""
        bad = (TaskVerdict.REGRESSION, TaskVerdict.FAILED)
        return any(item.verdict in bad and not item.emulates for item in self.platforms.values())

    def __repr__(self) -> str:
        told = ", ".join(f"{name} {item.verdict.value}" for name, item in self.platforms.items())
        return f"<Evaluation {self.model} on {self.samples} samples: {told}>"

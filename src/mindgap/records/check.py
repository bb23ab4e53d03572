"""The result of one check: one model on many platforms."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from typing import Final

from mindgap.records.outcome import Outcome
from mindgap.records.platform import Probe
from mindgap.records.verdict import Conclusion, Verdict

DEFECTS: Final = frozenset({Conclusion.DIVERGES, Conclusion.FAILED, Conclusion.UNSTABLE})
"""What somebody should look at."""


@dataclass(frozen=True, slots=True)
class PlatformResult:
    """What one platform did and what we conclude."""

    outcome: Outcome
    verdict: Verdict
    probe: Probe
    known: str = ""
    """The entry of known.toml that lists it."""

    def __repr__(self) -> str:
        where = "" if self.outcome.ok else f" at {self.outcome.stage.value}"
        return f"<PlatformResult {self.verdict.conclusion.value}: {self.outcome.status.value}{where}>"


@dataclass(frozen=True, slots=True)
class Tolerance:
    """What a test of one output should allow: rounding on this model and input, and nothing else."""

    output: str
    dtype: str
    rtol: float
    atol: float
    safety: float
    """Noise floors that it leaves room for."""
    catches: Mapping[str, bool] = field(default_factory=dict)
    """By platform that diverges: whether a test with this tolerance fails there on this output."""
    reason: str = ""
    """Why no tolerance can be recommended."""

    @property
    def line(self) -> str:
        """The line of a test; empty where there is none to recommend."""
        if self.reason:
            return ""
        return f"torch.testing.assert_close(actual, expected, rtol={self.rtol:g}, atol={self.atol:g}, equal_nan=True)"


@dataclass(frozen=True, slots=True)
class Invariance:
    """Whether a platform gives the same sample the same result, whatever surrounds it."""

    relation: str
    """`alone`, `neighbours`, `permuted` or `twice`."""
    verdict: Verdict


@dataclass(frozen=True, slots=True)
class CheckResult:
    """One model, one dtype, many platforms."""

    model: str
    dtype: str
    seed: int
    nodes: int | None
    """Operators of the exported program; None when the model cannot be exported."""
    parameters: int
    inputs: Mapping[str, str]
    """Name and `dtype[shape]` of each input tensor."""
    eager: Outcome
    """The baseline: eager on this machine's CPU; for an ONNX file the standard's reference implementation."""
    platforms: Mapping[str, PlatformResult]
    baseline: str = "eager"
    """The platform that all others are compared with."""
    export_failure: str = ""
    program_exact: bool | None = None
    """Whether the exported program gives the source's bits on eager; None when that was not compared."""
    reference: str = ""
    """What errors were measured against, or why there was nothing."""
    left_out: Mapping[str, str] = field(default_factory=dict)
    """Default platforms that cannot be used here, each with the reason and how to get it."""
    tolerances: tuple[Tolerance, ...] = ()
    """For a test of each output; only where they were asked for."""
    invariance: Mapping[str, tuple[Invariance, ...]] = field(default_factory=dict)
    """By platform; only where it was asked for."""
    versions: Mapping[str, str] | None = None
    seconds: float = 0.0

    @property
    def differs(self) -> bool:
        """Whether eager did not run it, or a platform does not do what eager does: diverges, is unstable, or failed."""
        if not self.eager.ok:
            return True
        return any(result.verdict.conclusion in DEFECTS for result in self.platforms.values())

    def fails_on(self, verdicts: Collection[Conclusion]) -> bool:
        """Whether eager did not run it, or a platform has one of these verdicts that is not known already."""
        new = {result.verdict.conclusion for result in self.platforms.values() if not result.known}
        new |= {item.verdict.conclusion for items in self.invariance.values() for item in items}
        return not self.eager.ok or not new.isdisjoint(verdicts)

    def __repr__(self) -> str:
        told = ", ".join(f"{name} {item.verdict.conclusion.value}" for name, item in self.platforms.items())
        told = told if self.eager.ok else f"eager could not run it; {told}"
        return f"<CheckResult {self.model} {self.dtype}: {told}>"

    def _repr_html_(self) -> str:
        return str(import_module("mindgap.report.html").check_html(self))

"""The result of one check: one model on many platforms."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module

from mindgap.records.outcome import Outcome
from mindgap.records.platform import Probe
from mindgap.records.verdict import Conclusion, Verdict


@dataclass(frozen=True, slots=True)
class PlatformResult:
    """What one platform did and what we conclude."""

    outcome: Outcome
    verdict: Verdict
    probe: Probe

    def __repr__(self) -> str:
        where = "" if self.outcome.ok else f" at {self.outcome.stage.value}"
        return f"<PlatformResult {self.verdict.conclusion.value}: {self.outcome.status.value}{where}>"


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
    """The baseline: eager on this machine's CPU."""
    platforms: Mapping[str, PlatformResult]
    export_failure: str = ""
    program_exact: bool | None = None
    """Whether the exported program gives the source's bits on eager; None when that was not compared."""
    reference: str = ""
    """What errors were measured against, or why there was nothing."""
    versions: Mapping[str, str] | None = None
    seconds: float = 0.0

    @property
    def differs(self) -> bool:
        """Whether a platform does not do what eager does: it diverges, is unstable, or did not run."""
        wrong = {Conclusion.DIVERGES, Conclusion.UNSTABLE, Conclusion.FAILED}
        return any(result.verdict.conclusion in wrong for result in self.platforms.values())

    def __repr__(self) -> str:
        told = ", ".join(f"{name} {item.verdict.conclusion.value}" for name, item in self.platforms.items())
        return f"<CheckResult {self.model} {self.dtype}: {told}>"

    def _repr_html_(self) -> str:
        return str(import_module("mindgap.report.html").check_html(self))

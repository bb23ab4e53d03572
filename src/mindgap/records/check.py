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
    left_out: Mapping[str, str] = field(default_factory=dict)
    """Default platforms that cannot be used here, each with the reason and how to get it."""
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
        return not self.eager.ok or not new.isdisjoint(verdicts)

    def __repr__(self) -> str:
        told = ", ".join(f"{name} {item.verdict.conclusion.value}" for name, item in self.platforms.items())
        told = told if self.eager.ok else f"eager could not run it; {told}"
        return f"<CheckResult {self.model} {self.dtype}: {told}>"

    def _repr_html_(self) -> str:
        return str(import_module("mindgap.report.html").check_html(self))

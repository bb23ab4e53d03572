"""Who runs and who judges: workers of this machine, or of a cluster."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Protocol

from mindgap.campaign.plan import Plan
from mindgap.campaign.runners import Judge, LocalRunner, OnPause, Runner, Stopped, limited
from mindgap.execution.pool import HOST, Pool, in_parallel
from mindgap.platforms.probing import require
from mindgap.records.platform import PlatformSpec, Probe


class Workforce(Protocol):
    """Platforms and judges for one run of a campaign."""

    pool: Pool
    """Workers of this machine, and where outputs lie."""

    def require(self) -> dict[str, Probe]:
        """Every platform says that it can be used; raises with the reason if not."""

    def runners(self, stopped: Stopped, on_pause: OnPause) -> dict[str, list[Runner]]:
        """By platform: what runs programs on it; several work at the same time."""

    def judges(self, stopped: Stopped, on_pause: OnPause) -> list[Judge]: ...

    def local_specs(self) -> Mapping[str, PlatformSpec]:
        """Platforms of this machine, which can be asked again to explain what they did."""

    def interrupt(self) -> None:
        """End everything that is at work now."""

    def close(self) -> None:
        """Nobody asks any more."""


class LocalWorkforce:
    """One worker process per platform, and as many judges as jobs."""

    def __init__(self, pool: Pool, plan: Plan, specs: Mapping[str, PlatformSpec], jobs: int) -> None:
        self.pool = pool
        self._specs = {name: limited(spec, plan.timeout_s) for name, spec in specs.items()}
        self._host = limited(HOST, plan.timeout_s)
        self._jobs = jobs

    def require(self) -> dict[str, Probe]:
        found = in_parallel(self._jobs, lambda spec: require(self.pool, spec), list(self._specs.values()))
        return dict(zip(self._specs, found))

    def runners(self, stopped: Stopped, on_pause: OnPause) -> dict[str, list[Runner]]:
        return {name: [LocalRunner(self.pool, spec, stopped, on_pause)] for name, spec in self._specs.items()}

    def judges(self, stopped: Stopped, on_pause: OnPause) -> list[Judge]:
        specs = [replace(self._host, worker=f"judge {number}") for number in range(self._jobs)]
        for spec in specs:
            self.pool.warm(spec)
        return [Judge(self.pool, spec, stopped, on_pause) for spec in specs]

    def local_specs(self) -> Mapping[str, PlatformSpec]:
        return self._specs

    def interrupt(self) -> None:
        self.pool.interrupt()

    def close(self) -> None:
        """The pool belongs to the caller."""

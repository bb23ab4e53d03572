"""Who runs and who judges: workers of this machine, or of a cluster."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Protocol

from mindgap.campaign.plan import Plan
from mindgap.campaign.runners import LocalJudge, LocalRunner, Runner, limited
from mindgap.execution.careful import Careful
from mindgap.execution.pool import HOST, Pool, in_parallel
from mindgap.records.platform import PlatformSpec, Probe


class Workforce(Protocol):
    """Platforms and judges for one stretch."""

    pool: Pool
    """Workers of this machine, and the place where outputs lie."""

    def require(self) -> dict[str, Probe]:
        """Every platform says that it can be used; raises with the reason if not."""

    def runners(self, stopped: Callable[[], bool], on_pause: Callable[[str], None]) -> dict[str, list[Runner]]:
        """By platform: what runs programs on it; several work at the same time."""

    def judges(self, stopped: Callable[[], bool], on_pause: Callable[[str], None]) -> list[LocalJudge]: ...

    def interrupt(self) -> None:
        """End everything that is at work now."""

    def close(self) -> None:
        """Nobody asks any more."""


class LocalWorkforce:
    """One worker process a platform, and as many judges as jobs."""

    def __init__(self, pool: Pool, plan: Plan, specs: Mapping[str, PlatformSpec], jobs: int) -> None:
        self.pool = pool
        self._specs = {name: limited(spec, plan.timeout_s) for name, spec in specs.items()}
        self._host = limited(HOST, plan.timeout_s)
        self._jobs = jobs

    def require(self) -> dict[str, Probe]:
        found = in_parallel(self._jobs, self.pool.require, list(self._specs.values()))
        return dict(zip(self._specs, found))

    def runners(self, stopped: Callable[[], bool], on_pause: Callable[[str], None]) -> dict[str, list[Runner]]:
        def runner(name: str, spec: PlatformSpec) -> Runner:
            return LocalRunner(self.pool, name, Careful(self.pool, spec, stopped=stopped, on_pause=on_pause))

        return {name: [runner(name, spec)] for name, spec in self._specs.items()}

    def judges(self, stopped: Callable[[], bool], on_pause: Callable[[str], None]) -> list[LocalJudge]:
        specs = [replace(self._host, name=f"judge {number}") for number in range(self._jobs)]
        for spec in specs:
            self.pool.warm(spec)
        return [LocalJudge(Careful(self.pool, spec, stopped=stopped, on_pause=on_pause)) for spec in specs]

    def interrupt(self) -> None:
        self.pool.interrupt()

    def close(self) -> None:
        """The pool belongs to the caller."""

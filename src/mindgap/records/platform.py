"""What a platform is, before anything runs on it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Limits:
    """What one request may cost; passing a limit is an outcome, not an error of mindgap."""

    cpu_s: float = 600.0
    """CPU time of the worker: fair on a loaded machine, where wall-clock limits punish waiting."""
    wall_s: float = 1200.0
    """Wall-clock time, also of what polls or waits for a device."""
    memory_mb: int = 12_288
    """Private memory of the worker process, and of all that it started together."""
    files_mb: int = 12_288
    """Files that the worker writes for us, temporary files and shared memory, together with all that it started."""
    idle_s: float = 120.0
    """Wall-clock time without any computing on the CPU, where the system can tell: nothing that sleeps so long wakes
    up. It does not count for platforms with another device, which may be waited for."""


@dataclass(frozen=True, slots=True)
class PlatformSpec:
    """Everything a worker needs to become one platform: `runtime[:device][@profile]`."""

    name: str
    adapter: str
    """`module:Class` of the adapter, importable by the worker's interpreter."""
    device: str | None = None
    python: str | None = None
    """Interpreter of the worker; None is the one that runs mindgap."""
    env: Mapping[str, str] = field(default_factory=dict)
    options: Mapping[str, object] = field(default_factory=dict)
    limits: Limits = Limits()
    summary: str = ""
    install: str | None = None
    """The command that would make the platform available."""
    environment: str = ""
    """The environment that `mindgap platforms install` makes for it, there or not."""
    size_mb: int = 0
    """What that environment takes on the disk."""
    hardware: str = ""
    """What it needs that no install brings: `an Apple GPU`."""
    emulates: str = ""
    """The hardware that it stands in for; empty for a platform whose results are observed."""
    writes: tuple[str, ...] = ()
    """Directories besides its own that an isolated worker may write to."""
    worker: str = ""
    """Tells several workers of one platform apart."""

    @property
    def is_foreign(self) -> bool:
        """Whether its adapter is a module of the user's own."""
        return bool(self.adapter) and not self.adapter.startswith("mindgap.")

    @property
    def worker_name(self) -> str:
        return f"{self.name} {self.worker}" if self.worker else self.name


@dataclass(frozen=True, slots=True)
class Probe:
    """What a platform said about itself when asked on this machine."""

    available: bool
    version: str = ""
    device: str = ""
    dtypes: tuple[str, ...] = ()
    """Element types that a one-operator program really ran with."""
    reason: str = ""
    """Why it is not available."""

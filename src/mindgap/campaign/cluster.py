"""Platforms of a Ray cluster: actors that hold isolated worker processes on the nodes that have the hardware."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from mindgap.campaign.plan import Plan
from mindgap.campaign.remote import RemoteOutcome, restored, told_elsewhere
from mindgap.campaign.runners import Judge, LocalRunner, OnPause, Runner, Stopped, limited
from mindgap.campaign.workforce import LocalWorkforce
from mindgap.errors import NoSpace, PlatformUnavailable, UsageError
from mindgap.execution.parcel import Parcel
from mindgap.execution.pool import Pool
from mindgap.platforms.names import parse_name
from mindgap.platforms.probing import require
from mindgap.records.outcome import Outcome
from mindgap.records.platform import PlatformSpec, Probe

RESOURCES: Final = {"cuda": "GPU", "xpu": "GPU", "npu": "NPU", "hpu": "HPU", "xla": "TPU"}
"""What Ray calls the hardware of a device; others are custom resources named `platform:DEVICE`."""
WHOLE: Final = ("HPU", "TPU")
"""Hardware that Ray gives away only as a whole; of the rest a worker takes a part: eager and compiled share it."""
PART: Final = 0.25
START_S: Final = 300.0
"""How long a cluster may take to give an actor its place: nodes may still be starting."""


def resource_of(platform: str, offered: Mapping[str, float]) -> dict[str, float]:
    """What a node must have to run a platform: a custom resource of its name, its device, or a core."""
    if offered.get(f"platform:{platform}"):
        return {f"platform:{platform}": PART}
    name = parse_name(platform)
    kind = name.device_kind if name is not None else None
    if kind is None:
        return {}
    known = RESOURCES.get(kind)
    wanted = known if known is not None and offered.get(known) else f"platform:{kind}"
    if not offered.get(wanted):
        raise PlatformUnavailable(
            f"no node of the cluster offers {platform}",
            cause=f"there is no resource {known or wanted!r} among {', '.join(sorted(offered))}",
            hint=f"start a node with: ray start --resources '{{\"platform:{platform}\": 1}}'",
        )
    return {wanted: 1.0 if wanted in WHOLE else PART}


def _raise(reason: NoSpace) -> None:
    raise reason


class NodeWorker:
    """What lives on a node: a pool of its own with one isolated worker process."""

    def __init__(self, spec: PlatformSpec, weights: dict[str, bytes]) -> None:
        self._pool = Pool()
        self._spec = spec
        self._runner = LocalRunner(self._pool, spec, lambda: False, _raise)
        self._weights = self._pool.scratch.path / "weights"
        self._weights.mkdir()
        for digest, values in weights.items():
            (self._weights / digest).write_bytes(values)

    def probe(self) -> Probe:
        return require(self._pool, self._spec)

    def run(self, cases: Sequence[Parcel], runs: int) -> list[RemoteOutcome]:
        here = [replace(parcel, weights=str(self._weights)) for parcel in cases]
        found: dict[int, Outcome] = {}
        self._runner.run(here, runs, found.__setitem__)
        return [told_elsewhere(number, "", found[number]) for number in range(len(here))]


class ClusterRunner:
    """One platform on a cluster; an actor whose node died is started again where there is room."""

    def __init__(self, pool: Pool, start: Callable[[], Any], stopped: Callable[[], bool]) -> None:
        self._pool = pool
        self._start = start
        self._stopped = stopped
        self._actor: Any = None
        self._lock = threading.Lock()

    def run(
        self, cases: Sequence[Parcel], runs: int, done: Callable[[int, Outcome], None], cheaper: bool = False
    ) -> None:
        import ray

        while not self._stopped():
            try:
                with self._lock:
                    self._actor = self._actor or self._start()
                told = _get(self._actor.run.remote(list(cases), runs), self._stopped)
            except (ray.exceptions.RayActorError, ray.exceptions.ObjectLostError, ray.exceptions.WorkerCrashedError):
                self._actor = None  # its node has gone: another one takes the whole batch
                continue
            for number, item in enumerate(told or ()):
                done(number, restored(item, self._pool.scratch.new_file("cluster")))
            return


def _get(reference: Any, stopped: Callable[[], bool]) -> Any:
    """What an actor answers; None when the campaign was stopped meanwhile."""
    import ray

    while not stopped():
        ready, _ = ray.wait([reference], timeout=0.2)
        if ready:
            return ray.get(reference)
    return None


class ClusterWorkforce:
    """Platforms on the cluster, judges on this machine."""

    def __init__(
        self, pool: Pool, plan: Plan, specs: Mapping[str, PlatformSpec], jobs: int, address: str, weights: Path
    ) -> None:
        try:
            import ray
        except ImportError as error:
            raise UsageError("--cluster needs Ray", hint="pip install 'mindgap[cluster]'") from error
        self.pool = pool
        self._ray = ray
        self._joined = not ray.is_initialized()
        if self._joined:
            try:
                ray.init(address=address, logging_level=logging.ERROR, log_to_driver=False)
            except (ConnectionError, ValueError, RuntimeError) as error:
                raise UsageError(f"there is no Ray cluster at {address}", cause=str(error).splitlines()[0]) from error
        self._local = LocalWorkforce(pool, plan, {}, jobs)
        self._specs = {name: limited(spec, plan.timeout_s) for name, spec in specs.items()}
        self._weights = ray.put({path.name: path.read_bytes() for path in sorted(weights.glob("*"))})
        self._actors: list[Any] = []
        self._first: dict[str, Any] = {}
        self._needed: dict[str, dict[str, float]] = {}

    def require(self) -> dict[str, Probe]:
        offered: dict[str, float] = self._ray.cluster_resources()
        needed = {name: resource_of(name, offered) for name in self._specs}
        actors = {name: self._new(name, needed[name]) for name in self._specs}
        probes = {name: self._ray.get(actor.probe.remote(), timeout=START_S) for name, actor in actors.items()}
        self._first = actors
        self._needed = needed
        return probes

    def runners(self, stopped: Stopped, on_pause: OnPause) -> dict[str, list[Runner]]:
        return {
            name: [ClusterRunner(self.pool, self._starter(name, needed), stopped)]
            for name, needed in self._needed.items()
        }

    def judges(self, stopped: Stopped, on_pause: OnPause) -> list[Judge]:
        return self._local.judges(stopped, on_pause)

    def local_specs(self) -> Mapping[str, PlatformSpec]:
        return {}  # explaining asks a platform hundreds of times: `mindgap explain` does it on a machine that has it

    def interrupt(self) -> None:
        self.pool.interrupt()
        for actor in self._actors:
            self._ray.kill(actor)

    def close(self) -> None:
        """Only when no thread asks the cluster any more: Ray would start one of its own for it."""
        if self._joined:
            self._ray.shutdown()

    def _starter(self, name: str, needed: dict[str, float]) -> Callable[[], Any]:
        def start() -> Any:
            first = self._first.pop(name, None)
            return first if first is not None else self._new(name, needed)

        return start

    def _new(self, name: str, needed: dict[str, float]) -> Any:
        gpus = needed.get("GPU", 0.0)
        others = {key: value for key, value in needed.items() if key != "GPU"}
        options = {"num_cpus": 0.5, "num_gpus": gpus, "resources": others, "max_restarts": 0}
        remote = self._ray.remote(NodeWorker).options(**options)
        actor = remote.remote(self._specs[name], self._weights)
        self._actors.append(actor)
        return actor

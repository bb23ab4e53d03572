"""Building the corpus: offers -> plan -> one isolated worker for each job -> store.

A model that crashes, hangs or runs out of memory does not stop the build; however a build ends, the next one continues
where it stopped.
"""

from __future__ import annotations

import shutil
import threading
import time
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

from mindgap.corpus.build_model import BuildModel, BuiltModel, build_in_worker
from mindgap.corpus.plan import OWN, libraries, list_offers, own_offers, plan, second_names
from mindgap.corpus.registry import Library, Offer
from mindgap.corpus.store import Entry, Status, Store
from mindgap.errors import MindgapError, UsageError
from mindgap.execution.pool import HOST, Pool
from mindgap.execution.process import Death
from mindgap.records.platform import Limits, PlatformSpec
from mindgap.records.progress import Lane, duration
from mindgap.records.source import Source

LIMITS: Final = Limits(cpu_s=120, wall_s=600, memory_mb=6144)
"""What one model may cost."""
LARGEST_MB: Final = 2500
"""A worker that holds more after a model is replaced: libraries keep what they once imported or cached."""
ASKING: Final = replace(HOST, name="offers", limits=Limits(cpu_s=120, wall_s=600, memory_mb=6144))

Progress = Callable[[str, str], None]


@dataclass(frozen=True, slots=True)
class LibraryOffers:
    """What a library offers, or why it offers nothing here."""

    name: str
    offers: tuple[Offer, ...] = ()
    reason: str = ""
    install: str = ""


@dataclass(frozen=True, slots=True)
class Collected:
    """What a build did."""

    built: int
    duplicate: int
    failed: int
    total: int
    """Models of the chosen libraries that the store now holds."""
    left: int
    """Offers that were not tried."""
    seconds: float
    missing: tuple[LibraryOffers, ...] = ()
    """Libraries that could not be asked."""
    unknown: tuple[str, ...] = ()
    """Models that were asked for by name and that no library offers here."""


def list_libraries(sources: Sequence[str] | None = None, progress: Progress | None = None) -> list[LibraryOffers]:
    """What every library offers here; one that is missing says why and how to get it."""
    with Pool() as pool:
        return _offers(pool, sources, progress or _silent)


def build_corpus(
    directory: Path,
    *,
    models: int | None = None,
    jobs: int = 2,
    sources: Sequence[str] | None = None,
    only: Collection[str] | None = None,
    seed: int = 0,
    retry_failed: bool = False,
    limits: Limits = LIMITS,
    progress: Progress | None = None,
) -> Collected:
    """Build programs until the store holds `models` of the chosen sources, or all that they offer; `only` names the
    models that count.

    What an earlier build finished is not repeated; its failures are, when asked for.
    """
    start = time.perf_counter()
    tell = progress or _silent
    with Store(directory, writing=True) as store, Pool() as pool:
        if only is not None and sources is None:
            sources = [prefix for prefix in libraries() if any(spec.startswith(f"{prefix}:") for spec in only)]
        found = _offers(pool, sources, tell, building=True)
        offers = {item.name: [o for o in item.offers if only is None or o.spec in only] for item in found}
        build = _Build(store, pool, offers, models, seed, retry_failed, tell)
        build.run([replace(HOST, name=f"build {number}", limits=limits) for number in range(max(1, jobs))])
        return Collected(
            built=build.counts[Status.BUILT],
            duplicate=build.counts[Status.DUPLICATE],
            failed=build.counts[Status.FAILED],
            total=build.total,
            left=len(build.waiting),
            seconds=time.perf_counter() - start,
            missing=tuple(item for item in found if item.reason),
            unknown=tuple(sorted(set(only or ()) - {offer.spec for items in offers.values() for offer in items})),
        )


@dataclass
class _Build:
    """One run of the build: threads take offers from a queue and store the results."""

    store: Store
    pool: Pool
    offers: Mapping[str, Sequence[Offer]]
    models: int | None
    seed: int
    retry_failed: bool
    tell: Progress
    counts: Counter[Status] = field(default_factory=Counter)
    total: int = 0
    in_flight: int = 0
    stopping: bool = False
    _turn: threading.Condition = field(default_factory=threading.Condition)

    def __post_init__(self) -> None:
        ordered = plan(self.offers)
        self.same_name = second_names([(name, offer) for name, items in self.offers.items() for offer in items])
        self.status = {entry.spec: entry.status for entry in self.store.entries()}
        again = {Status.FAILED} if self.retry_failed else set()
        self.waiting = [item for item in ordered if self.status.get(item[1].spec) in {None, *again}]
        self.total = sum(self.status.get(offer.spec) is Status.BUILT for _, offer in ordered)
        lane = Lane(len(self.waiting)) if self.models is None else Lane(max(self.models, self.total), self.total)
        self.lane = lane.begun(time.monotonic())

    def run(self, workers: Sequence[PlatformSpec]) -> None:
        """Work until nothing is left; Ctrl-C and errors of the build itself end all threads at once."""
        executor = ThreadPoolExecutor(max_workers=len(workers))
        threads = [executor.submit(self._work, worker) for worker in workers]
        try:
            for thread in wait(threads, return_when=FIRST_EXCEPTION).done:
                thread.result()
        finally:
            with self._turn:
                self.stopping = True
                self._turn.notify_all()
            self.pool.close()
            executor.shutdown(wait=True)

    def _work(self, worker: PlatformSpec) -> None:
        folder = self.store.incoming / worker.name.replace(" ", "-")
        while (item := self._next()) is not None:
            library, offer = item
            start = time.perf_counter()
            try:
                source = Source(offer.spec, self.seed, trust=False, directory=str(Path.cwd()))
                answer = self.pool.ask(worker, build_in_worker, BuildModel(source, str(folder)))
            except Exception:
                if self.stopping:
                    return
                raise
            with self._turn:
                if self.stopping:  # the worker was ended from outside: nothing is known about the model
                    return
                self._enter(library, offer, answer, folder, time.perf_counter() - start)
                self.in_flight -= 1
                self._turn.notify_all()
            shutil.rmtree(folder, ignore_errors=True)
            if self.pool.resident_mb(worker) > LARGEST_MB:
                self.pool.retire(worker)

    def _next(self) -> tuple[str, Offer] | None:
        """The next model to build; None when the target is reached or nothing is left."""
        with self._turn:
            while not self.stopping:
                if self.models is not None and self.total >= self.models:
                    return None
                if self.models is not None and self.total + self.in_flight >= self.models:
                    self._turn.wait()  # what is in flight may fail, and then another is needed
                    continue
                if not self.waiting:
                    return None
                library, offer = self.waiting.pop(0)
                kept = self.same_name.get(offer.spec, "")
                if self.status.get(kept) in (Status.BUILT, Status.DUPLICATE):
                    self._record(self._start(library, offer, Status.DUPLICATE, reason="name", duplicate_of=kept))
                    continue
                self.in_flight += 1
                return library, offer
        return None

    def _enter(self, library: str, offer: Offer, answer: BuiltModel | Death, folder: Path, seconds: float) -> None:
        if isinstance(answer, Death):
            self._record(
                self._start(
                    library, offer, Status.FAILED, stage=answer.status.value, reason=answer.message, seconds=seconds
                )
            )
            return
        built = answer
        kept = self.store.built_as(built.fingerprint) if built.fingerprint else None
        status = Status.FAILED if built.stage else Status.DUPLICATE if kept else Status.BUILT
        entry = self._start(
            library,
            offer,
            status,
            fingerprint=built.fingerprint,
            duplicate_of=kept or "",
            nodes=built.nodes,
            parameters=built.parameters,
            bytes=built.bytes if status is Status.BUILT else 0,
            seconds=round(built.seconds, 3),
            stage=built.stage,
            reason=built.reason or ("structure" if kept else ""),
            operators=built.operators if status is Status.BUILT else (),
            versions=built.versions,
        )
        entry = replace(entry, seed=built.seed if not built.stage else self.seed)
        if built.liveness is not None:
            alive = built.liveness
            entry = replace(
                entry,
                counted=alive.counted,
                constant=alive.constant,
                nonfinite=alive.nonfinite,
                dead_example=alive.example,
            )
        self._record(entry, folder)

    def _start(self, library: str, offer: Offer, status: Status, **details: object) -> Entry:
        known = {"spec": offer.spec, "library": library, "domain": offer.domain, "family": offer.family}
        return Entry(**known, status=status, seed=self.seed, **details)  # type: ignore[arg-type]

    def _record(self, entry: Entry, folder: Path | None = None) -> None:
        if entry.status is Status.BUILT and folder is not None:
            self.store.keep(entry, folder)
            self.total += 1
        else:
            self.store.record(entry)
        self.status[entry.spec] = entry.status
        self.counts[entry.status] += 1
        now = time.monotonic()
        if self.models is None or entry.status is Status.BUILT:
            self.lane = self.lane.advanced(now)
        left = self.lane.left_s(now)
        numbers = f"{self.total} built, {self.counts[Status.DUPLICATE]} duplicate, {self.counts[Status.FAILED]} failed"
        numbers += f", {len(self.waiting)} to try" + (f", {duration(left)} left" if left is not None else "")
        self.tell("corpus", f"{numbers}; {entry.spec} {entry.status.value}")


def _offers(pool: Pool, sources: Sequence[str] | None, tell: Progress, building: bool = False) -> list[LibraryOffers]:
    """Offers by library; what is not a library's name is a file or directory of the user."""
    known = libraries()
    # What comes with mindgap needs no package and is already built: it is taken only by name.
    names = list(sources) if sources else [name for name, item in known.items() if item.packages or not building]
    found = []
    for name in names:
        tell("offers", name)
        if name in known:
            found.append(_ask(pool, known[name]))
        else:
            found.append(LibraryOffers(OWN if building else name, tuple(own_offers(Path(name)))))
    return _merged(found)


def _ask(pool: Pool, library: Library) -> LibraryOffers:
    install = library.install
    try:
        offers = pool.demand(ASKING, list_offers, library.prefix, f"asking {library.prefix}")
        return LibraryOffers(library.prefix, offers, install=install)
    except UsageError as error:  # not installed, or not in a version that works
        reason = ": ".join(filter(None, [error.what, error.cause]))
        return LibraryOffers(library.prefix, reason=reason, install=install)
    except (MindgapError, RuntimeError) as error:  # importing it ended the worker, or raised anything
        return LibraryOffers(library.prefix, reason=str(error).strip().splitlines()[-1], install=install)


def _merged(found: Sequence[LibraryOffers]) -> list[LibraryOffers]:
    """One entry for each name: several of the user's own directories are one library."""
    by_name: dict[str, LibraryOffers] = {}
    for item in found:
        before = by_name.get(item.name)
        by_name[item.name] = replace(item, offers=(*before.offers, *item.offers)) if before else item
    return list(by_name.values())


def _silent(who: str, what: str) -> None:
    """Report nothing."""

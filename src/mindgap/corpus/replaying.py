"""Whether the programs of a store still give the bits of the models that they came from."""

from __future__ import annotations

import queue
import random
import time
from dataclasses import dataclass, replace
from pathlib import Path

from mindgap.corpus.building import LARGEST_MB, LIMITS, Progress
from mindgap.corpus.export import prepare
from mindgap.corpus.load import load
from mindgap.corpus.roundtrip import as_example, difference, run_call, run_source
from mindgap.corpus.store import Entry, Status, Store
from mindgap.errors import MindgapError, UsageError
from mindgap.execution.pool import HOST, Pool, in_parallel
from mindgap.execution.tasks import Worker, task
from mindgap.program import codec
from mindgap.program.interpret import Executable
from mindgap.records.progress import Lane
from mindgap.records.source import Source


@dataclass(frozen=True, slots=True)
class Replayed:
    """One program compared with its source."""

    spec: str
    different: str
    """The first tensor whose bits differ, or why there is nothing to compare; empty when all are the same."""


@dataclass(frozen=True, slots=True)
class Replay:
    """A model, and the program that came from it."""

    source: Source
    path: str


@task
def replay(worker: Worker, request: Replay) -> str:
    """What differs between a model and its stored program on the program's own inputs; empty when nothing does."""
    loaded = load(request.source)
    if loaded.model is None:
        return "it has a program but no source"
    program, constants = codec.load(Path(request.path))
    inputs, seed = as_example(prepare(loaded), program), request.source.seed
    return difference(
        run_source(inputs, seed, loaded.model), run_call(inputs, seed, Executable(program, constants).run)
    )


def replay_corpus(directory: Path, *, count: int, seed: int, jobs: int, progress: Progress) -> list[Replayed]:
    """Run a random choice of programs and their sources, each in a worker of its own, and compare the bits."""
    with Store(directory) as store, Pool() as pool:
        built = [entry for entry in store.entries() if entry.status is Status.BUILT]
        if not built:
            raise UsageError(f"{directory} holds no programs", hint="mindgap corpus build makes some")
        chosen = random.Random(seed).sample(built, min(count, len(built)))
        free: queue.SimpleQueue[int] = queue.SimpleQueue()
        for number in range(jobs):
            free.put(number)
        lane = Lane(len(chosen)).begun(time.monotonic())

        def compare(entry: Entry) -> Replayed:
            nonlocal lane
            number = free.get()
            worker = replace(HOST, name=f"replay {number}", limits=LIMITS)
            source = Source(entry.spec, entry.seed, trust=False, directory=str(Path.cwd()))
            try:
                request = Replay(source, str(store.program_path(entry.fingerprint)))
                different = pool.demand(worker, replay, request, entry.spec)
                if pool.resident_mb(worker) > LARGEST_MB:
                    pool.retire(worker)
            except (MindgapError, RuntimeError) as error:  # a library that is gone, a worker that died
                different = str(error).strip().splitlines()[-1]
            free.put(number)
            lane = lane.advanced(time.monotonic())
            progress("replay", f"{lane.told(time.monotonic())}; {entry.spec} {different or 'the same bits'}")
            return Replayed(entry.spec, different)

        return in_parallel(jobs, compare, chosen)

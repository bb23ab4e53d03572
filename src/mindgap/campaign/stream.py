"""The numbered stream of variants of a plan: the same in every process, so that a number names a program."""

from __future__ import annotations

import contextlib
import queue
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Final, Protocol

from mindgap.campaign.dossier import NumberedVariant
from mindgap.campaign.ledger import WEIGHTS
from mindgap.campaign.plan import Plan
from mindgap.errors import MindgapError
from mindgap.execution.parcel import Parcel
from mindgap.execution.pool import HOST, Pool
from mindgap.execution.process import Death
from mindgap.program import codec
from mindgap.program.graph import Program
from mindgap.records.platform import Limits, PlatformSpec
from mindgap.variants import quarantine
from mindgap.variants.base import base_files, load_bases, prepare
from mindgap.variants.streaming import MadeVariant, MakeVariants, StreamPlan, make_variants, open_stream

QUARANTINE: Final = "quarantine.txt"
"""The file of a campaign with calls that ended the process that makes variants."""
MAKER: Final = replace(HOST, worker="synthesis", limits=Limits(cpu_s=600, wall_s=900, memory_mb=8192))
"""Makes variants; loading the programs of a large corpus takes minutes."""
ROOM: Final = 64
"""Variants that wait between the process that makes them and the campaign."""
MOST_DEATHS: Final = 8
"""So often the worker may end over one variant."""
MOST_LOST: Final = 3
"""So many in a row may have no program."""


class Numbering(Protocol):
    """Variants in their order, each made ready to travel only when it is wanted."""

    weights: str
    """The directory with the constants that no seed gives."""

    def pick(self, wanted: Callable[[int], bool], count: int) -> Iterator[NumberedVariant]:
        """Those of the first `count` variants that are wanted by their number."""

    def base_of(self, fingerprint: str) -> Program | None:
        """The real program of a fingerprint, where it is at hand."""


class MadeInWorker:
    """Variants of a recipe from a worker: a kernel that crashes while rules are learned costs one call, no campaign."""

    def __init__(self, pool: Pool, plan: StreamPlan) -> None:
        self.weights = plan.weights
        self._pool = pool
        self._plan = plan
        self._programs: dict[str, Program] = {}
        pool.demand(self._maker, open_stream, plan, "loading the corpus")

    @property
    def _maker(self) -> PlatformSpec:
        """The worker that also lays down weights and calls in the campaign's directory."""
        return replace(MAKER, writes=(str(Path(self._plan.quarantine).parent),))

    def pick(self, wanted: Callable[[int], bool], count: int) -> Iterator[NumberedVariant]:
        left = [number for number in range(count) if wanted(number)]
        deaths = lost = 0
        while left:
            done = -1
            ended: NumberedVariant | Death | BaseException | None = None
            for ended in self._made(left):
                if not isinstance(ended, NumberedVariant):
                    break
                done = ended.number
                yield ended
            left = [number for number in left if number > done]  # some numbers of a sweep have no program
            if isinstance(ended, BaseException):
                raise ended
            if self._pool.interrupted or not isinstance(ended, Death):
                return
            deaths = 1 if done >= 0 else deaths + 1
            lost = 0 if done >= 0 else lost
            if not ended.outside:  # whoever kills it from outside says nothing of the call at hand
                quarantine.keep(Path(self._plan.quarantine))
            if deaths == MOST_DEATHS:
                lost, deaths = lost + 1, 0
                if lost == MOST_LOST or len(left) == 1:
                    raise MindgapError(
                        f"variant {left[0]} cannot be made: the process that makes it ended {MOST_DEATHS} times",
                        cause=ended.message,
                        hint="another --seed or --corpus makes other variants; what is finished stays",
                    )
                left = left[1:]  # that one has no program; the others need not suffer for it

    def _made(self, numbers: Sequence[int]) -> Iterator[NumberedVariant | Death | BaseException | None]:
        """What the worker makes, and last how it ended."""
        room: queue.Queue[NumberedVariant | Death | BaseException | None] = queue.Queue(ROOM)
        closed = threading.Event()

        def put(item: NumberedVariant | Death | BaseException | None) -> None:
            while not closed.is_set():
                with contextlib.suppress(queue.Full):
                    room.put(item, timeout=0.2)
                    return

        def take(made: MadeVariant) -> None:
            if made.provenance is not None:
                put(numbered(made, self.weights))

        def ask() -> None:
            try:
                request = MakeVariants(self._plan, tuple(numbers))
                ended = self._pool.ask(self._maker, make_variants, request, on_item=take)
            except BaseException as error:  # told to whoever reads
                put(error)
            else:
                put(ended if isinstance(ended, Death) else None)

        thread = threading.Thread(target=ask, name="variants", daemon=True)
        thread.start()
        try:
            item: NumberedVariant | Death | BaseException | None = room.get()
            while isinstance(item, NumberedVariant):
                yield item
                item = room.get()
            yield item
        finally:
            closed.set()
            if thread.is_alive():
                self._pool.interrupt(MAKER)
            thread.join()

    def base_of(self, fingerprint: str) -> Program | None:
        """The base of some variants, made ready as the worker did; one at a time, as a large corpus does not fit."""
        if fingerprint not in self._programs:
            if self._plan.store is None:
                bases = load_bases(self._plan.corpus)
            else:
                bases = [prepare(fingerprint, *codec.load(p)) for p in self._files if p.stem == fingerprint]
            self._programs |= {base.fingerprint: base.program for base in bases}
        return self._programs.get(fingerprint)

    @cached_property
    def _files(self) -> list[Path]:
        return [path for _, path in base_files(self._plan.corpus, self._plan.directory)]


def numbered(made: MadeVariant, weights: str = "") -> NumberedVariant:
    """A variant as it travels."""
    assert made.provenance is not None
    parcel = Parcel(made.program, weights=weights if made.needs_weights else "", structure=made.structure)
    return NumberedVariant(made.number, made.fingerprint, made.name, made.nodes, parcel, made.provenance, made.contexts)


def stream_of(plan: Plan, directory: Path, pool: Pool) -> Numbering:
    """The variants of a plan's corpus; what no seed gives is laid down in the campaign's directory."""
    weights, calls = directory / WEIGHTS, directory / QUARANTINE
    corpus, store = plan.corpus, plan.corpus_directory
    recipe = StreamPlan(corpus, store, plan.seed, str(weights), str(calls), plan.fragments, plan.sweep, plan.unmodified)
    return MadeInWorker(pool, recipe)

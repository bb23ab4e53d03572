"""The stream of variants, made in a worker: its rules are learned from real kernels, and some of those crash."""

from __future__ import annotations

import contextlib
import hashlib
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby
from pathlib import Path
from typing import Final

from mindgap.errors import ModelError
from mindgap.execution.tasks import Worker, stream_task, task
from mindgap.program import codec
from mindgap.program.codec import encode
from mindgap.program.fingerprint import fingerprint
from mindgap.records.files import write_whole
from mindgap.records.tensors import byte_view
from mindgap.records.variant import Provenance, Sweep
from mindgap.variants.base import Base, base_files, in_portions, load_bases, prepare
from mindgap.variants.contexts import contexts_of
from mindgap.variants.fragments import Fragmenting
from mindgap.variants.invocations import Invoking
from mindgap.variants.quarantine import Quarantine
from mindgap.variants.rules import RuleTable
from mindgap.variants.synthesis import Synthesis, Variant

ALIVE_S: Final = 1.0
PORTION: Final = 4096
"""Variants from the same bases of a large corpus: loading them takes a minute or two."""


@dataclass(frozen=True, slots=True)
class StreamPlan:
    """Which stream: the same plan gives the same variants in every process."""

    corpus: tuple[str, ...] | None
    """Names of base programs; None is a whole corpus."""
    store: str | None
    """A store of programs; None is the smoke corpus."""
    seed: int
    weights: str
    """The folder for constants that no seed can make."""
    quarantine: str
    """The file of calls that ended a worker and are not made again."""
    fragments: float = 0.0
    """The part of the numbers that are fragments, spread evenly."""
    sweep: Sweep | None = None
    """With it the numbers are invocations of operators, and those that cannot be made are left out."""
    unmodified: bool = False
    """Whether the numbers are the real programs themselves, each once; what fails on its own example is left out."""

    def fragments_before(self, number: int) -> int:
        """How many of the first numbers are fragments."""
        return int(number * self.fragments + 1e-9)

    def is_fragment(self, number: int) -> bool:
        return self.fragments_before(number + 1) > self.fragments_before(number)

    @property
    def directory(self) -> Path | None:
        return None if self.store is None else Path(self.store)


@dataclass(frozen=True, slots=True)
class MakeVariants:
    """Variants of a stream, by their number."""

    plan: StreamPlan
    numbers: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class MadeVariant:
    """A variant ready to send; without a number it only says that the worker is still working."""

    number: int = -1
    fingerprint: str = ""
    name: str = ""
    nodes: int = 0
    program: bytes = b""
    needs_weights: bool = False
    provenance: Provenance | None = None
    contexts: tuple[str, ...] = ()
    """Of a fragment: what it exercises, as far as platforms may care (`contexts.contexts_of`)."""
    structure: str = ""
    """Of a fragment: the same for all of its rounds."""


@task
def open_stream(worker: Worker, request: StreamPlan) -> int:
    """Load the programs that variants are made from and count them."""
    return worker.keep(Streaming).open(request)


@stream_task
def make_variants(worker: Worker, request: MakeVariants) -> Iterator[MadeVariant]:
    """Reports each variant as soon as it is ready; a full pipe makes it wait."""
    streaming = worker.keep(Streaming)
    streaming.open(request.plan)
    yield from streaming.make(request.numbers)


@dataclass
class Streaming:
    """What a worker keeps between two requests.

    A corpus that is too large to hold is used in portions: `length` variants from one random choice of bases.
    Each portion is a synthesis of its own, so one that is not wanted costs nothing.
    """

    plan: StreamPlan | None = None
    rules: RuleTable = field(default_factory=RuleTable)
    length: int = sys.maxsize
    """Variants of a portion."""
    portion: int = -1
    bases: list[Base] = field(default_factory=list)
    """Of this portion."""

    def open(self, plan: StreamPlan) -> int:
        """Open the corpus and count its programs."""
        files = base_files(plan.corpus, plan.directory)
        if plan != self.plan:
            self.plan, self.portion = plan, -1
            self.rules = RuleTable(Quarantine(Path(plan.quarantine)))
            self.length = PORTION if in_portions(plan.corpus, files) and plan.sweep is None else sys.maxsize
            if not plan.unmodified:
                self._load(0)
        return len(files)

    def make(self, wanted: Sequence[int]) -> Iterator[MadeVariant]:
        """The stream, as far as it is wanted."""
        if self.plan is not None and self.plan.unmodified:
            yield from self._unmodified(self.plan, wanted)
            return
        for portion, numbers in groupby(wanted, lambda number: number // self.length):
            self._load(portion)
            yield MadeVariant()  # loading took its time
            yield from self._of_portion(portion * self.length, list(numbers))

    def _unmodified(self, plan: StreamPlan, wanted: Sequence[int]) -> Iterator[MadeVariant]:
        files = base_files(plan.corpus, plan.directory)
        for number in wanted:
            name, path = files[number]
            yield MadeVariant()  # loading takes its time
            with contextlib.suppress(ModelError):
                base = prepare(name, *codec.load(path))
                keep_weights([base], Path(plan.weights))
                yield described(Variant(base.program, Provenance(base.fingerprint, name, plan.seed)), number)

    def _of_portion(self, first: int, wanted: Sequence[int]) -> Iterator[MadeVariant]:
        plan = self.plan
        assert plan is not None
        seed = plan.seed if self.length == sys.maxsize else plan.seed * 1_000_003 + self.portion
        said = time.monotonic()
        if plan.sweep is not None:
            invoking = Invoking(plan.sweep, self.bases, plan.seed, self.rules)
            for number in wanted:
                made = invoking.make(number)
                if made is not None or time.monotonic() - said >= ALIVE_S:
                    yield described(made, number) if made is not None else MadeVariant()
                    said = time.monotonic()
            return
        fragments = Fragmenting(self.bases, seed, self.rules)
        whole = enumerate(Synthesis(self.bases, seed, rules=self.rules), start=first - plan.fragments_before(first))
        for number in wanted:
            if plan.is_fragment(number):
                yield described(fragments.make(plan.fragments_before(number)), number)
                continue
            for index, variant in whole:  # each depends on those before it
                if index == number - plan.fragments_before(number):
                    yield described(variant, number)
                    break
                if time.monotonic() - said >= ALIVE_S:
                    yield MadeVariant()
                    said = time.monotonic()

    def _load(self, portion: int) -> None:
        assert self.plan is not None
        if portion != self.portion:
            plan = self.plan
            is_needed = plan.sweep is None or "corpus" in plan.sweep.kinds
            self.bases = load_bases(plan.corpus, plan.directory, seed=plan.seed + portion) if is_needed else []
            keep_weights(self.bases, Path(plan.weights))
            self.portion = portion


def described(variant: Variant, number: int = 0) -> MadeVariant:
    """A variant ready to send."""
    program, is_fragment = variant.program, variant.provenance.is_fragment
    content = encode(program, compression=0)  # it only crosses pipes: compressing takes longer
    return MadeVariant(
        number,
        # Fragments differ in their values, which a fingerprint leaves out.
        _digest(content) if is_fragment else fingerprint(program),
        program.name,
        len(program.nodes),
        content,
        any(constant.made is None for constant in program.constants),
        variant.provenance,
        contexts_of(program, variant.provenance.values) if is_fragment else (),
        _digest(encode(replace(program, name="", example=()), compression=0)) if is_fragment else "",
    )


def _digest(content: bytes) -> str:
    return hashlib.blake2b(content, digest_size=12).hexdigest()


def keep_weights(bases: Sequence[Base], directory: Path) -> None:
    """Write constants that no seed can make, once each, as raw values named by their digest."""
    kept = {identity: tensor for base in bases for identity, tensor in base.kept.items()}
    if kept:
        directory.mkdir(exist_ok=True)
    for identity, tensor in kept.items():
        path = directory / identity
        if not path.exists():
            write_whole(path, byte_view(tensor).numpy().tobytes())

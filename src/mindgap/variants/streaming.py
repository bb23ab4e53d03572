"""The stream of variants, made in a worker: what it learns it learns from real kernels, and some of those crash."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path
from typing import Any, Final

from mindgap.program.codec import encode
from mindgap.program.fingerprint import fingerprint
from mindgap.records.files import write_whole
from mindgap.records.tensors import byte_view
from mindgap.variants.base import AT_ONCE, Base, base_files, load_bases
from mindgap.variants.quarantine import Quarantine
from mindgap.variants.rules import RuleTable
from mindgap.variants.synthesis import Synthesis, Variant

ALIVE: Final = -1
"""The number of an item that only says that the worker is still at work."""
ALIVE_S: Final = 1.0
SHIFT: Final = 4096
"""Variants from the same bases of a large corpus: loading them takes a minute or two."""


@dataclass(frozen=True)
class Recipe:
    """Which stream: the same recipe gives the same variants in every process."""

    corpus: tuple[str, ...] | None
    """Names of base programs; None is a whole corpus."""
    store: str | None
    """A store of programs; None is the smoke corpus."""
    seed: int
    weights: str
    """Where the constants that no seed gives are laid down."""
    quarantine: str
    """The file of calls that ended a worker and are not made again."""

    @property
    def directory(self) -> Path | None:
        return None if self.store is None else Path(self.store)


@dataclass
class Streaming:
    """What a worker keeps between two requests.

    A corpus that is too large to hold is worked through in shifts: some bases, chosen anew, for so many variants. Each
    shift is a synthesis of its own, so one that nobody wants costs nothing.
    """

    recipe: Recipe | None = None
    rules: RuleTable = field(default_factory=RuleTable)
    length: int = sys.maxsize
    """Variants of a shift."""
    shift: int = -1
    bases: list[Base] = field(default_factory=list)
    """Of this shift."""

    def open(self, message: Mapping[str, Any]) -> int:
        """Look at the corpus; how many programs it has."""
        corpus = message["corpus"]
        recipe = Recipe(**{**message, "corpus": None if corpus is None else tuple(corpus)})
        count = len(base_files(recipe.corpus, recipe.directory))
        if recipe != self.recipe:
            self.recipe, self.shift = recipe, -1
            self.rules = RuleTable(Quarantine(Path(recipe.quarantine)))
            self.length = SHIFT if count > AT_ONCE else sys.maxsize
            self._begin(0, lambda: None)
        return count

    def send(self, wanted: Sequence[int], report: Callable[[int, Any], None]) -> None:
        """Make the stream, as far as it is wanted, and report what is."""
        alive = _Alive(report)
        for shift, numbers in groupby(wanted, lambda number: number // self.length):
            self._begin(shift, alive)
            self._shift(shift * self.length, list(numbers), report, alive)

    def _shift(
        self, first: int, wanted: Sequence[int], report: Callable[[int, Any], None], alive: Callable[[], None]
    ) -> None:
        assert self.recipe is not None
        left = iter(wanted)
        following = next(left, None)
        seed = self.recipe.seed if self.length == sys.maxsize else self.recipe.seed * 1_000_003 + self.shift
        for number, variant in enumerate(Synthesis(self.bases, seed, rules=self.rules), start=first):
            if number == following:
                report(number, described(variant))
                following = next(left, None)
                if following is None:
                    return
            alive()

    def _begin(self, shift: int, alive: Callable[[], None]) -> None:
        assert self.recipe is not None
        if shift != self.shift:
            recipe = self.recipe
            self.bases = load_bases(recipe.corpus, recipe.directory, seed=recipe.seed + shift, tell=alive)
            keep_weights(self.bases, Path(recipe.weights))
            self.shift = shift


class _Alive:
    """Says now and then that work goes on where nothing is reported."""

    def __init__(self, report: Callable[[int, Any], None]) -> None:
        self._report = report
        self._said = time.monotonic()

    def __call__(self) -> None:
        if time.monotonic() - self._said > ALIVE_S:
            self._report(ALIVE, None)
            self._said = time.monotonic()


def described(variant: Variant) -> dict[str, Any]:
    """A variant made ready to travel."""
    program = variant.program
    return {
        "fingerprint": fingerprint(program),
        "name": program.name,
        "nodes": len(program.nodes),
        "program": encode(program, compression=0),  # it only crosses pipes: compressing takes longer
        "needs_weights": any(constant.made is None for constant in program.constants),
        "provenance": variant.provenance.to_message(),
    }


def keep_weights(bases: Sequence[Base], directory: Path) -> None:
    """Constants that no seed gives, once each, as raw values named by their digest."""
    kept = {identity: tensor for base in bases for identity, tensor in base.kept.items()}
    if kept:
        directory.mkdir(exist_ok=True)
    for identity, tensor in kept.items():
        path = directory / identity
        if not path.exists():
            write_whole(path, byte_view(tensor).numpy().tobytes())

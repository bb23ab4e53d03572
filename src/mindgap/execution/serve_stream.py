"""The stream of variants, made in a worker: what it learns it learns from real kernels, and some of those crash."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from mindgap.program.codec import encode
from mindgap.program.fingerprint import fingerprint
from mindgap.records.files import write_whole
from mindgap.records.tensors import byte_view
from mindgap.variants.base import Base, load_bases
from mindgap.variants.quarantine import Quarantine
from mindgap.variants.rules import RuleTable
from mindgap.variants.synthesis import Synthesis, Variant

ALIVE: Final = -1
"""The number of an item that only says that the worker is still at work."""
ALIVE_S: Final = 1.0


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

    def bases(self) -> list[Base]:
        """The base programs; their constants are laid down."""
        bases = load_bases(self.corpus, None if self.store is None else Path(self.store))
        keep_weights(bases, Path(self.weights))
        return bases


@dataclass
class Streaming:
    """What a worker keeps between two requests."""

    recipe: Recipe | None = None
    bases: list[Base] = field(default_factory=list)
    rules: RuleTable = field(default_factory=RuleTable)

    def open(self, message: Mapping[str, Any]) -> int:
        """Load the base programs; how many there are."""
        corpus = message["corpus"]
        recipe = Recipe(**{**message, "corpus": None if corpus is None else tuple(corpus)})
        if recipe != self.recipe:
            self.bases = recipe.bases()
            self.rules = RuleTable(Quarantine(Path(recipe.quarantine)))
            self.recipe = recipe
        return len(self.bases)

    def send(self, wanted: Sequence[int], report: Callable[[int, Any], None]) -> None:
        """Make the stream up to the last number that is wanted, and report those that are."""
        assert self.recipe is not None
        left = iter(wanted)
        following = next(left, None)
        said = time.monotonic()
        for number, variant in enumerate(Synthesis(self.bases, self.recipe.seed, rules=self.rules)):
            if following is None:
                return
            if number == following:
                report(number, described(variant))
                following = next(left, None)
            elif time.monotonic() - said < ALIVE_S:
                continue
            else:
                report(ALIVE, None)
            said = time.monotonic()


def described(variant: Variant) -> dict[str, Any]:
    """A variant made ready to travel."""
    program = variant.program
    return {
        "fingerprint": fingerprint(program),
        "name": program.name,
        "nodes": len(program.nodes),
        "program": encode(program),
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

"""The numbered stream of variants of a plan: the same in every process, so that a number names a program."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeAlias

from mindgap.campaign.case import Numbered
from mindgap.campaign.plan import Plan
from mindgap.execution.batch import Job
from mindgap.program.codec import encode
from mindgap.program.fingerprint import fingerprint
from mindgap.program.graph import Program
from mindgap.records.files import write_whole
from mindgap.records.tensors import byte_view
from mindgap.variants.base import Base, load_bases
from mindgap.variants.synthesis import Synthesis, Variant

WEIGHTS: Final = "weights"
"""The folder of a campaign with the constants that no seed gives."""

Stream: TypeAlias = Callable[[], Iterator[Variant]]
"""Starts the stream anew."""


@dataclass
class Numbering:
    """Variants in their order, each made ready to travel only when it is wanted."""

    stream: Stream
    weights: str = ""
    """The directory with the constants that no seed gives."""
    base_of: Callable[[str], Program | None] = lambda fingerprint: None
    """The real program of a fingerprint, where it is at hand."""

    def pick(self, wanted: Callable[[int], bool], count: int) -> Iterator[Numbered]:
        """Those of the first `count` variants that are wanted by their number."""
        for number, variant in enumerate(self.stream()):
            if number >= count:
                return
            if wanted(number):
                yield numbered(number, variant, self.weights)


def numbered(number: int, variant: Variant, weights: str = "") -> Numbered:
    """A variant made ready to travel."""
    program = variant.program
    kept = any(constant.made is None for constant in program.constants)
    return Numbered(
        number=number,
        fingerprint=fingerprint(program),
        name=program.name,
        nodes=len(program.nodes),
        job=Job(encode(program), seed=0, weights=weights if kept else ""),
        provenance=variant.provenance,
    )


def stream_of(plan: Plan, directory: Path) -> Numbering:
    """The variants of a plan's corpus; what no seed gives is laid down in the campaign's directory."""
    store = None if plan.corpus_directory is None else Path(plan.corpus_directory)
    bases = load_bases(plan.corpus, store)
    weights = directory / WEIGHTS
    keep_weights(bases, weights)
    programs = {base.fingerprint: base.program for base in bases}
    return Numbering(lambda: iter(Synthesis(bases, plan.seed)), str(weights), programs.get)


def keep_weights(bases: list[Base], directory: Path) -> None:
    """Constants that no seed gives, once each, as raw values named by their digest."""
    kept = {identity: tensor for base in bases for identity, tensor in base.kept.items()}
    if kept:
        directory.mkdir(exist_ok=True)
    for identity, tensor in kept.items():
        path = directory / identity
        if not path.exists():
            write_whole(path, byte_view(tensor).numpy().tobytes())

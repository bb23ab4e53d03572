"""Which models to build, in which order."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final, TypeVar

from mindgap.corpus.registry import Library, Offer, discover
from mindgap.corpus.spelling import refuse_source
from mindgap.errors import ModelError
from mindgap.execution.tasks import Worker, task
from mindgap.reading.files import read_file
from mindgap.reading.limits import TEXT_BYTES

T = TypeVar("T")

FIRST: Final = ("timm", "transformers", "torchvision")
"""Of a model that several libraries offer, the first of these is kept; the others follow by name."""
OWN: Final = "own"
"""The library and domain of the user's own files."""
_MODEL_FILES: Final = (".py", ".pt2", ".mgp")
_SIZE_WORDS: Final = (
    ("atto", "femto", "pico", "nano", "n", "t"),
    ("micro", "mini", "tiny", "lite", "xxs", "xs"),
    ("small", "s"),
    ("medium", "m"),
    ("base", "b"),
    ("large", "l", "xlarge", "xl", "x"),
    ("huge", "h", "giant", "g", "gigantic", "xxl", "xxlarge", "enormous"),
)
"""Words and letters for sizes in model names, from small to large."""
_SIZES: Final = {word: rank for rank, words in enumerate(_SIZE_WORDS) for word in words}


def libraries() -> dict[str, Library]:
    """Every library by its prefix, the preferred ones first."""
    found = {source.prefix: source for source in discover() if isinstance(source, Library)}
    order = sorted(found, key=lambda prefix: (FIRST.index(prefix) if prefix in FIRST else len(FIRST), prefix))
    return {prefix: found[prefix] for prefix in order}


@task
def list_offers(worker: Worker, library: str) -> tuple[Offer, ...]:
    """Every model that a library offers, asked in a worker: importing it may fail in any way."""
    return tuple(libraries()[library].offers())


def own_offers(path: Path) -> list[Offer]:
    """The user's own models: a file, or every model file below a directory."""
    refuse_source(str(path))
    files = sorted(p for p in path.rglob("*") if p.suffix in _MODEL_FILES) if path.is_dir() else [path]
    if not files:
        raise ModelError(f"{path} holds no models", hint=f"files that end in {', '.join(_MODEL_FILES)}")
    return [Offer(str(file.absolute()), OWN, file.parent.name) for file in files]


def listed_models(path: Path) -> frozenset[str]:
    """The models of a list: one per line, alone or in the last column of what `corpus stats --models` writes."""
    lines = read_file(path, TEXT_BYTES, ModelError).decode("utf-8", "replace").splitlines()
    found = frozenset(name for line in lines if ":" in (name := line.rpartition("\t")[2].strip()))
    if not found:
        raise ModelError(f"{path} names no models", hint="write one LIBRARY:NAME per line")
    return found


def plan(offers: Mapping[str, Sequence[Offer]]) -> list[tuple[str, Offer]]:
    """Libraries in turn, within a library its families in turn, within a family small ones first.

    So every beginning is diverse, and a build that is stopped holds as many models as its time allows.

    A model that an earlier library offers under the same name comes last, when it is known what became of that one.
    """
    named = [(library, offer) for library, items in offers.items() for offer in items]
    seconds = second_names(named)
    first = {library: [o for o in items if o.spec not in seconds] for library, items in offers.items()}
    turns = in_turn([[(library, offer) for offer in _by_family(items)] for library, items in first.items()])
    return [*turns, *((library, offer) for library, offer in named if offer.spec in seconds)]


def second_names(offers: Iterable[tuple[str, Offer]]) -> dict[str, str]:
    """Specs of models that an earlier library offers under the same name, with that library's spec."""
    owners: dict[tuple[str, str], tuple[str, str]] = {}
    found: dict[str, str] = {}
    for library, offer in offers:
        name = normalised(offer.spec)
        if name is None:
            continue
        owner, spec = owners.setdefault((offer.domain, name), (library, offer.spec))
        if owner != library:
            found[offer.spec] = spec
    return found


def normalised(spec: str) -> str | None:
    """A model's name without its library, case and punctuation: `resnet18` for `timm:resnet18`.

    Only names with a number in them name one model; `vit` or `unet` name an idea, and libraries differ in it.
    """
    _, colon, name = spec.partition(":")
    plain = re.sub(r"[^a-z0-9]", "", name.lower())
    return plain if colon and re.search(r"[a-z].*\d", plain) else None


def in_turn(groups: Sequence[Sequence[T]]) -> list[T]:
    """The groups interleaved: the first of each, then the second of each, and so on."""
    longest = max(map(len, groups), default=0)
    return [group[index] for index in range(longest) for group in groups if index < len(group)]


def _by_family(offers: Sequence[Offer]) -> list[Offer]:
    families: dict[str, list[Offer]] = {}
    for offer in offers:
        families.setdefault(offer.family, []).append(offer)
    return in_turn([sorted(family, key=lambda offer: likely_size(offer.spec)) for family in families.values()])


def likely_size(spec: str) -> tuple[int, list[int]]:
    """A model's size as its name suggests: `vit_tiny` before `vit_base`, `resnet18` before `resnet101`."""
    parts = re.findall(r"[a-z]+|\d+", spec.lower())
    return max((_SIZES.get(part, 0) for part in parts), default=0), [int(part) for part in parts if part.isdigit()]

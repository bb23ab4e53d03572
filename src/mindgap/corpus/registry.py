"""Which model sources there are, and which of them a spec belongs to."""

from __future__ import annotations

import functools
import importlib
import pkgutil
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Final, TypeVar

from mindgap.corpus.loaded import Loaded
from mindgap.corpus.spelling import unknown_model
from mindgap.records.source import Source


class ModelSource(ABC):
    """One way to name a model; a module below `sources/` registers it with `@register`."""

    forms: ClassVar[tuple[str, ...]]
    """How a user writes it, as shown when a spec is not understood."""

    @abstractmethod
    def claims(self, spec: str, directory: Path) -> bool:
        """Whether the spec is of this source's form, whether or not the model exists."""

    @abstractmethod
    def load(self, source: Source) -> Loaded:
        """The model with inputs that fit it; raises ModelError or Untrusted. `load` casts it afterwards."""


@dataclass(frozen=True, slots=True)
class Offer:
    """One model that a library offers."""

    spec: str
    domain: str
    """One of DOMAINS."""
    family: str = ""
    """Models of one family are built alike; a sample takes some of each."""


DOMAINS: Final = (
    "vision", "language", "audio", "multimodal", "diffusion", "graph", "tabular", "recommendation", "time series", "rl",
)  # fmt: skip


class Library(ModelSource):
    """A package that offers many models by name: `PREFIX:NAME`."""

    prefix: ClassVar[str]
    packages: ClassVar[tuple[str, ...]]
    """What must be importable, by import name."""
    extra: ClassVar[str]
    """The extra of mindgap that installs it: `pip install 'mindgap[EXTRA]'`."""
    spelled_in: ClassVar[tuple[str, str]]
    """Where the package's text spells every name: a folder, and a pattern that finds most of them. A name that is no
    word there is refused before the library is imported; what is not declared can only be told by importing it."""

    @property
    def install(self) -> str:
        """The command that installs it; empty for what comes with mindgap."""
        return f"pip install 'mindgap[{self.extra}]'" if self.extra else ""

    def claims(self, spec: str, directory: Path) -> bool:
        return spec.startswith(f"{self.prefix}:")

    @abstractmethod
    def offers(self) -> Iterator[Offer]:
        """Every model, in a stable order; raises ModelError when a package is missing."""


_SOURCES: dict[str, ModelSource] = {}
Registered = TypeVar("Registered", bound=type[ModelSource])


def register(source: Registered) -> Registered:
    """Class decorator: the source takes part in `find`."""
    _SOURCES[f"{source.__module__}.{source.__name__}"] = source()
    return source


@functools.cache
def discover() -> tuple[ModelSource, ...]:
    """Every model source below `sources/`, in the order of their file names."""
    package = importlib.import_module("mindgap.corpus.sources")
    for module in sorted(pkgutil.walk_packages(package.__path__, f"{package.__name__}."), key=lambda item: item.name):
        importlib.import_module(module.name)
    return tuple(_SOURCES[name] for name in sorted(_SOURCES))


def find(source: Source) -> ModelSource:
    """The model source that a spec belongs to; raises ModelError that lists the forms."""
    directory = Path(source.directory)
    for candidate in discover():
        if candidate.claims(source.spec, directory):
            return candidate
    raise unknown_model(source.spec, directory)

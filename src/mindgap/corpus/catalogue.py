"""Libraries whose models are a table by name."""

from __future__ import annotations

import functools
import importlib.util
from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import torch

from mindgap.corpus import attempts, library
from mindgap.corpus.attempts import Attempt
from mindgap.corpus.loaded import Loaded
from mindgap.corpus.registry import Library, Offer
from mindgap.errors import ModelError
from mindgap.records.source import Source


class Catalogue(Library):
    """A library as a table: a source says what is in it and how an entry may be built and called."""

    domain: ClassVar[str]
    """One of DOMAINS; `domain_of` where models differ."""
    keeps_weights: ClassVar[bool] = False
    """Whether models come trained; all others get weights from the seed."""

    @abstractmethod
    def models(self) -> Mapping[str, Any]:
        """Entries by name, in a stable order; raises ModelError when a package is missing."""

    @abstractmethod
    def attempts(self, name: str, model: Any, seed: int) -> Iterable[Attempt]:
        """Ways to build and call an entry of `models`, the best first."""

    def family(self, name: str, model: Any) -> str:
        """By default the module that defines the entry."""
        return str(model.__module__).rpartition(".")[2]

    def domain_of(self, name: str, model: Any) -> str:
        """What a model is for."""
        return self.domain

    def offers(self) -> Iterator[Offer]:
        for name, model in self.models().items():
            yield Offer(f"{self.prefix}:{name}", self.domain_of(name, model), self.family(name, model))

    def load(self, source: Source) -> Loaded:
        models = self.models()
        name = attempts.known(source.spec.removeprefix(f"{self.prefix}:"), list(models), self.prefix)
        return attempts.first_that_runs(source, self.attempts(name, models[name], source.seed), self.keeps_weights)

    def imported(self, module: str) -> Any:
        """A module of the library; raises ModelError with the command that installs it."""
        return library.import_library(module, self.extra)


@dataclass(frozen=True, slots=True)
class Packaged:
    """One model of a package: how it is built, and what it is called with."""

    module: str
    """By import name."""
    domain: str
    build: Callable[[Any], torch.nn.Module]
    """From the imported module, or from the package's folder where `is_imported` is false."""
    inputs: Callable[[int], tuple[Any, ...] | dict[str, Any]]
    """Positional or keyword arguments from a seed."""
    is_imported: bool = True
    """Importing some packages needs more than their model does."""

    @property
    def package(self) -> str:
        return self.module.partition(".")[0]


class PackagedModels(Catalogue):
    """A table of models from several packages; a missing package takes only its own models away."""

    table: ClassVar[Mapping[str, Packaged]]

    def models(self) -> Mapping[str, Packaged]:
        return self.table

    def family(self, name: str, model: Packaged) -> str:
        return model.package

    def domain_of(self, name: str, model: Packaged) -> str:
        return model.domain

    def offers(self) -> Iterator[Offer]:
        present = {package for package in self.packages if importlib.util.find_spec(package) is not None}
        if not present:
            raise ModelError(f"no package with {self.prefix}: models is installed", hint=self.install)
        yield from (offer for offer in super().offers() if offer.family in present)

    def attempts(self, name: str, model: Packaged, seed: int) -> Iterator[Attempt]:
        found = importlib.util.find_spec(model.package)
        if found is None:
            raise ModelError(f"{model.package} is not installed", hint=self.install)
        part = self.imported(model.module) if model.is_imported else Path(str(found.origin)).parent
        given = model.inputs(seed)
        args, kwargs = (given, {}) if isinstance(given, tuple) else ((), given)
        yield Attempt(functools.partial(model.build, part), args, kwargs)

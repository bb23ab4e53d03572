"""`core:NAME` and `smoke:NAME`: small programs that come with mindgap; no other package is needed."""

from __future__ import annotations

from collections.abc import Iterator

from mindgap.corpus import attempts
from mindgap.corpus.loaded import Loaded
from mindgap.corpus.registry import DOMAINS, Library, Offer, register
from mindgap.corpus.sources.program_file import read_program
from mindgap.corpus.spelling import SHIPPED
from mindgap.records.source import Source


class Shipped(Library):
    """`DOMAIN-MODEL.mgp` files in a folder of this package."""

    packages = ()
    extra = ""

    def offers(self) -> Iterator[Offer]:
        for path in sorted(SHIPPED[self.prefix].glob("*.mgp")):
            yield Offer(f"{self.prefix}:{path.stem}", domain_of(path.stem))

    def load(self, source: Source) -> Loaded:
        folder = SHIPPED[self.prefix]
        names = [item.stem for item in folder.glob("*.mgp")]
        name = attempts.known(source.spec.removeprefix(f"{self.prefix}:"), names, self.prefix)
        return read_program(folder / f"{name}.mgp", source.spec, source.seed)


@register
class Core(Shipped):
    """The core corpus: few programs with nearly all operators and contexts of thousands (`mindgap corpus core`)."""

    forms = ("core:NAME",)
    prefix = "core"


@register
class Smoke(Shipped):
    """The smoke corpus: a few programs of every domain, written by scripts/make_smoke.py."""

    forms = ("smoke:NAME",)
    prefix = "smoke"


def file_name(domain: str, model: str) -> str:
    """`time-series-patchtst.mgp` for a model of time series."""
    return f"{domain.replace(' ', '-')}-{model}.mgp"


def domain_of(stem: str) -> str:
    """The domain that a file's name begins with."""
    return next(domain for domain in DOMAINS if stem.startswith(f"{domain.replace(' ', '-')}-"))

"""`smoke:NAME`: small programs of every domain that come with mindgap; no other package is needed."""

from __future__ import annotations

from collections.abc import Iterator

from mindgap.corpus import attempts
from mindgap.corpus.loaded import Loaded
from mindgap.corpus.registry import DOMAINS, Library, Offer, register
from mindgap.corpus.sources.program_file import read_program
from mindgap.corpus.spelling import SMOKE
from mindgap.records.source import Source


@register
class Smoke(Library):
    """The smoke corpus: `DOMAIN-MODEL.mgp` files in this package, written by scripts/make_smoke.py."""

    forms = ("smoke:NAME",)
    prefix = "smoke"
    packages = ()
    extra = ""

    def offers(self) -> Iterator[Offer]:
        for path in sorted(SMOKE.glob("*.mgp")):
            yield Offer(f"smoke:{path.stem}", domain_of(path.stem))

    def load(self, source: Source) -> Loaded:
        names = [item.stem for item in SMOKE.glob("*.mgp")]
        name = attempts.known(source.spec.removeprefix("smoke:"), names, self.prefix)
        return read_program(SMOKE / f"{name}.mgp", source.spec, source.seed)


def file_name(domain: str, model: str) -> str:
    """`time-series-patchtst.mgp` for a model of time series."""
    return f"{domain.replace(' ', '-')}-{model}.mgp"


def domain_of(stem: str) -> str:
    """The domain that a file's name begins with."""
    return next(domain for domain in DOMAINS if stem.startswith(f"{domain.replace(' ', '-')}-"))

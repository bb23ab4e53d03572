"""`smoke:NAME`: small programs of every domain that come with mindgap; no other package is needed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

from mindgap.corpus import casting, files, inputs
from mindgap.corpus.loaded import Loaded
from mindgap.corpus.registry import DOMAINS, Library, Offer, register
from mindgap.errors import ModelError
from mindgap.program import codec
from mindgap.records.source import Source

FOLDER: Final = Path(__file__).parents[1] / "smoke"


@register
class Smoke(Library):
    """The smoke corpus: `DOMAIN-MODEL.mgp` files in this package, written by scripts/make_smoke.py."""

    forms = ("smoke:NAME",)
    prefix = "smoke"
    packages = ()
    extra = ""

    def offers(self) -> Iterator[Offer]:
        for path in sorted(FOLDER.glob("*.mgp")):
            yield Offer(f"smoke:{path.stem}", domain_of(path.stem))

    def load(self, source: Source) -> Loaded:
        name = source.spec.removeprefix("smoke:")
        path = FOLDER / f"{name}.mgp"
        known = [item.stem for item in FOLDER.glob("*.mgp")]
        if name not in known:
            found = files.nearest(name, known)
            raise ModelError(
                f"the smoke corpus has no program {name!r}",
                hint=f"did you mean smoke:{found}?" if found else "mindgap corpus list --source smoke lists them",
            )
        program, constants = codec.load(path)
        args = inputs.of_program(program, source.seed)
        loaded = Loaded(source.spec, args, {}, program=program, constants=constants)
        return casting.in_precision(loaded, source.dtype)


def file_name(domain: str, model: str) -> str:
    """`time-series-patchtst.mgp` for a model of time series."""
    return f"{domain.replace(' ', '-')}-{model}.mgp"


def domain_of(stem: str) -> str:
    """The domain that a file's name begins with."""
    return next(domain for domain in DOMAINS if stem.startswith(f"{domain.replace(' ', '-')}-"))

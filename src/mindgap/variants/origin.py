"""From a recipe back to the programs it names."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path

from mindgap.corpus.spelling import SHIPPED
from mindgap.corpus.store import Store
from mindgap.errors import ModelError
from mindgap.records.variant import Provenance
from mindgap.variants.base import Base, load_bases
from mindgap.variants.fragments import Wish, make_fragment, places
from mindgap.variants.rounds import in_round
from mindgap.variants.synthesis import Variant, make_variant


def origin_of(provenance: Provenance, spec: str | None = None, directory: Path | None = None) -> Base:
    """The base of a variant: the program that is named, or the one of its fingerprint in a corpus."""
    return _find(provenance.base, provenance.base_name, spec, directory)


def again(provenance: Provenance, spec: str | None = None, directory: Path | None = None) -> Variant:
    """The variant, made again from its recipe."""
    base = origin_of(provenance, spec, directory)
    if provenance.is_fragment:
        *asked, turn = provenance.focus if len(provenance.focus) > len(fields(Wish)) else (*provenance.focus, "0")
        return in_round(make_fragment(places(base), provenance.seed, Wish(*asked)), int(turn))
    donor = _find(provenance.donor, provenance.donor_name, None, directory) if provenance.donor else None
    invalid, equivalent = provenance.options
    return make_variant(
        base, provenance.seed, donor=donor, focus=provenance.focus, invalid_share=invalid, equivalent_share=equivalent
    )


def _find(fingerprint: str, name: str, spec: str | None, directory: Path | None) -> Base:
    candidates = [spec] if spec is not None else _candidates(fingerprint, name, directory)
    for candidate in candidates:
        (base,) = load_bases([candidate])
        if base.fingerprint == fingerprint:
            return base
    raise ModelError(
        f"program {name} was not found",
        cause=f"no program has the fingerprint {fingerprint}",
        hint="name it with --base FILE.mgp, or its store with --corpus DIR",
    )


def _candidates(fingerprint: str, name: str, directory: Path | None) -> list[str]:
    if directory is None:
        return [f"{corpus}:{name}" for corpus, folder in SHIPPED.items() if (folder / f"{name}.mgp").is_file()]
    with Store(directory) as store:
        path = store.program_path(fingerprint)
    return [str(path)] if path.is_file() else []

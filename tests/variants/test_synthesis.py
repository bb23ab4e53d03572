"""The stream: deterministic in any process, valid, distinct, and not ended by a bad plug-in."""

from __future__ import annotations

import hashlib
import subprocess
import sys
from itertools import islice

import msgspec
import pytest
import torch

from mindgap.errors import UsageError
from mindgap.program import codec
from mindgap.program.graph import check_references
from mindgap.records.variant import Intent, Provenance
from mindgap.variants.base import Base, load_bases
from mindgap.variants.draft import Draft
from mindgap.variants.registry import Family, Mutation
from mindgap.variants.rules import RuleTable
from mindgap.variants.synthesis import Synthesis, Variant, make_variant
from tests.variants.running import run

NAMES = ("rl-actor-critic", "graph-gcn", "time-series-tcn")
COUNT = 60


def contents(variants: list[Variant]) -> list[str]:
    return [hashlib.blake2b(codec.encode(v.program)).hexdigest() for v in variants]


def take(bases: list[Base], seed: int, count: int = COUNT) -> list[Variant]:
    return list(islice(Synthesis(bases, seed), count))


def test_the_same_in_another_process(bases: list[Base]) -> None:
    """Another process has other hash seeds, an empty table of rules and the bases in another order."""
    script = (
        "import hashlib\nfrom itertools import islice\nfrom mindgap.program import codec\n"
        "from mindgap.variants.base import load_bases\nfrom mindgap.variants.synthesis import Synthesis\n"
        f"bases = load_bases([f'smoke:{{name}}' for name in {tuple(reversed(NAMES))!r}])\n"
        f"for v in islice(Synthesis(bases, 7), {COUNT}):\n"
        "    print(hashlib.blake2b(codec.encode(v.program)).hexdigest())\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=200, check=True)
    assert done.stdout.split() == contents(take(load_bases([f"smoke:{name}" for name in NAMES]), 7))


def test_skipping_gives_what_follows(bases: list[Base]) -> None:
    skipped = Synthesis(bases, 3)
    skipped.skip(20)
    assert contents(list(islice(skipped, 10))) == contents(take(bases, 3, 30)[20:])


def test_one_variant_is_made_again_from_its_recipe(bases: list[Base]) -> None:
    by_fingerprint = {base.fingerprint: base for base in bases}
    for variant in take(bases, 5):
        recipe = msgspec.convert(msgspec.to_builtins(variant.provenance), Provenance)
        again = make_variant(
            by_fingerprint[recipe.base],
            recipe.seed,
            donor=by_fingerprint[recipe.donor],
            focus=recipe.focus,
            invalid_share=recipe.options[0],
            equivalent_share=recipe.options[1],
            rules=RuleTable(),
        )
        assert again == variant or contents([again]) == contents([variant])  # a NaN is not equal to itself


def test_other_seeds_give_other_variants(bases: list[Base]) -> None:
    found = contents(take(bases, 1)) + contents(take(bases, 2))
    assert len(set(found)) >= 0.97 * len(found)


def test_variants_run_from_their_bytes_alone(bases: list[Base]) -> None:
    failed, poisoned, count = [], 0, 0
    for variant in take(bases, 11, 150):
        check_references(variant.program)
        recipe = variant.provenance
        if recipe.intent is Intent.INVALID:
            continue
        count += 1
        try:
            outputs = run(variant.program)
        except (RuntimeError, IndexError) as error:
            failed.append(f"{recipe.steps}: {error}")
            continue
        floating = [t for t in outputs if isinstance(t, torch.Tensor) and t.is_floating_point() and t.numel()]
        ordinary = recipe.values == "ordinary"
        poisoned += ordinary and bool(floating) and not any(bool(torch.isfinite(t).any()) for t in floating)
    assert len(failed) <= 0.02 * count, failed
    assert poisoned <= 0.03 * count


def test_shares_are_kept(bases: list[Base]) -> None:
    found = list(islice(Synthesis(bases, 0, invalid_share=0.5, equivalent_share=0.5), 40))
    assert {v.provenance.intent for v in found} == {Intent.INVALID, Intent.EQUIVALENT}


def test_an_empty_corpus_is_an_error() -> None:
    with pytest.raises(UsageError, match="no programs to make variants from"):
        Synthesis([], 0)


def _broken(draft: Draft) -> str:
    """Raise."""
    draft.pick_node()
    raise ZeroDivisionError("a planted bug")


def test_a_plugin_that_raises_is_counted_and_skipped(bases: list[Base]) -> None:
    plugin = Mutation("broken", Family.VALUES, _broken, "nothing", weight=50.0)
    synthesis = Synthesis(bases, 0, plugins=[plugin])
    made = list(islice(synthesis, 20))
    assert len(made) == 20 and not any("broken" in v.provenance.mutations for v in made)
    assert synthesis.skipped["broken", "raised ZeroDivisionError: a planted bug"] > 20

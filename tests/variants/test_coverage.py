"""Guidance: what is not covered yet is asked for first."""

from __future__ import annotations

from random import Random

from mindgap.variants import catalogue
from mindgap.variants.base import Base
from mindgap.variants.coverage import Coverage
from mindgap.variants.synthesis import Synthesis


def test_an_operator_that_was_used_is_asked_for_less(bases: list[Base]) -> None:
    seen = Coverage()
    rare = catalogue.functional()[0]
    for name in catalogue.functional():
        seen.operators[name] = 0 if name == rare else 100_000
    asked = [name for _ in range(400) for name in seen.focus(Random(_))]
    assert asked.count(rare) > 2 * 2 * 400 / len(catalogue.functional())


def test_the_mutation_that_brings_something_new_is_asked_for(bases: list[Base]) -> None:
    seen = Coverage()
    variants = [variant for _, variant in zip(range(20), Synthesis(bases, 3))]
    by_name = {base.fingerprint: base for base in bases}
    for variant in variants:
        seen.add(variant.program, by_name[variant.provenance.base], ["new"])
        seen.add(variant.program, by_name[variant.provenance.base], ["stale"])  # the same again brings nothing
    asked = [name for seed in range(200) for name in seen.focus(Random(seed), ["new", "stale"])]
    assert asked.count("new") > 5 * asked.count("stale") > 0


def test_guidance_reaches_more_than_chance(bases: list[Base]) -> None:
    found = []
    for guided in (True, False):
        synthesis = Synthesis(bases, 5, guided=guided)
        synthesis.skip(600)
        seen = synthesis.coverage
        found.append((seen.count_operators(), len(seen.contexts) + len(seen.pairs)))
    assert found[0] > found[1] and found[0][1] > found[1][1]

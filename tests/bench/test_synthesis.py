"""The figures of synthesis: every row is there, and the harness tells what runs from what does not."""

from __future__ import annotations

from dataclasses import replace
from itertools import islice

from mindgap.bench import synthesis
from mindgap.records.variant import Intent
from mindgap.variants.base import load_bases
from mindgap.variants.synthesis import Synthesis


def test_running_tells_failures_from_rejections() -> None:
    stream = Synthesis(load_bases(["smoke:rl-actor-critic"]), 0, invalid_share=0.5, equivalent_share=0.0)
    variants = list(islice(stream, 40))
    found = synthesis.execute(variants)
    invalid = sum(v.provenance.intent is Intent.INVALID for v in variants)
    assert invalid and found.rejected == invalid and not found.accepted
    assert found.ran == 40 - invalid and not found.failed
    mislabelled = [replace(v, provenance=replace(v.provenance, intent=Intent.VALID)) for v in variants]
    assert sum(synthesis.execute(mislabelled).failed.values()) == invalid


def test_the_layered_base_has_the_nodes_asked_for() -> None:
    assert len(synthesis.layered(100).program.nodes) == 100


def test_the_name_of_a_program_does_not_make_it_another() -> None:
    (base,) = load_bases(["smoke:rl-actor-critic"])
    first = base.program
    assert synthesis.content_hash(replace(first, name="other")) == synthesis.content_hash(first)
    other = replace(first, nodes=first.nodes[:-1])
    assert synthesis.content_hash(other) != synthesis.content_hash(first)

"""Variants as documents and rows; pure functions."""

from __future__ import annotations

import difflib
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

from mindgap.program.graph import Node, Program
from mindgap.records.variant import Intent
from mindgap.variants.base import Base
from mindgap.variants.curve import Curves
from mindgap.variants.registry import Mutation
from mindgap.variants.synthesis import Synthesis, Variant

STATS_SCHEMA: Final = "mindgap.variant-stats/1"
_MEANT: Final = {
    Intent.VALID: "must run everywhere and give the same values",
    Intent.EQUIVALENT: "must agree with its base",
    Intent.INVALID: "should be rejected everywhere",
}


def made_lines(synthesis: Synthesis, bases: int, directory: Path) -> list[str]:
    """What `variants make` did."""
    lines = [
        f"{synthesis.made:,} variants of {bases} programs in {directory}",
        f"{synthesis.coverage.count_operators()} ATen overloads, {len(synthesis.coverage.contexts):,} contexts, "
        f"{len(synthesis.coverage.pairs):,} producer-consumer pairs in what was changed",
        f"{sum(synthesis.skipped.values()):,} mutations did not fit and were skipped",
    ]
    raised = {key: n for key, n in synthesis.skipped.items() if key[1].startswith("raised ")}
    return lines + [f"skipped {name} {n} times: it {reason}" for (name, reason), n in raised.items()]


def shown_lines(variant: Variant, base: Base) -> list[str]:
    """A variant's recipe in words, and what differs from its base."""
    recipe = variant.provenance
    lines = [
        f"{variant.program.name}: {len(variant.program.nodes)} nodes, derived from {recipe.base_name} "
        f"({len(base.program.nodes)} nodes), seed {recipe.seed}",
        f"intent {recipe.intent.value}: {_MEANT[recipe.intent]}; values {recipe.values}",
        *(f"  {number}. {step}" for number, step in enumerate(recipe.steps, start=1)),
        "",
    ]
    return lines + difference(base.program, variant.program)


def difference(base: Program, variant: Program) -> list[str]:
    """What was removed and added, in order, as lines that begin with - and +."""
    lines = []
    for what in ("inputs", "constants"):
        before, after = ([f"{what[:-1]} %{i.id} {i.name}: {i.meta}" for i in getattr(program, what)]
                         for program in (base, variant))  # fmt: skip
        lines += _unlike(before, after)
    named = {item.id: recipe for item, recipe in zip(base.inputs, base.example)}
    for item, recipe in zip(variant.inputs, variant.example):
        if named.get(item.id) != recipe:
            lines.append(f"+ input %{item.id} {item.name} holds {str(recipe)[:100]}")
    digests = {c.id: c for c in base.constants}
    for c in variant.constants:
        if c.id in digests and digests[c.id].digest != c.digest:
            lines.append(f"+ constant %{c.id} {c.name} holds {str(c.made)[:100]}")
    lines += _unlike(list(map(_written, base.nodes)), list(map(_written, variant.nodes)))
    return lines + _unlike([f"outputs {base.outputs!r}"], [f"outputs {variant.outputs!r}"])


def added_nodes(base: Program, variant: Program) -> set[int]:
    """The nodes of a variant that its base does not have like this."""
    before = {node.id: _written(node) for node in base.nodes}
    return {node.id for node in variant.nodes if before.get(node.id) != _written(node)}


def _unlike(before: Sequence[str], after: Sequence[str]) -> list[str]:
    return [line for line in difflib.ndiff(before, after) if line.startswith(("- ", "+ "))] if before != after else []


def _written(node: Node) -> str:
    arguments = [repr(a) for a in node.args] + [f"{key}={item!r}" for key, item in node.kwargs.items()]
    return f"%{node.id} = {node.op}({', '.join(arguments)}): {node.meta}"


def curve_rows(curves: Curves) -> list[list[str]]:
    """Variants, then each kind of coverage, guided and blind."""
    return [
        [f"{n:,}" for n in (a.variants, a.operators, b.operators, a.contexts, b.contexts, a.pairs, b.pairs)]
        for a, b in zip(curves.guided, curves.blind)
    ]


def skipped_rows(curves: Curves) -> list[list[str]]:
    """How often each mutation was made, how often it did not fit, and why most of the time."""
    reasons: dict[str, Counter[str]] = {}
    for (name, reason), n in curves.skipped.items():
        reasons.setdefault(name, Counter())[reason] += n
    rows = []
    for name in sorted({*curves.made, *reasons}):
        found = reasons.get(name, Counter())
        most = found.most_common(1)[0][0] if found else ""
        rows.append([name, str(curves.made[name]), str(sum(found.values())), most])
    return rows


def stats_document(curves: Curves, bases: int) -> dict[str, Any]:
    """The JSON of `mindgap variants stats`."""
    return {
        "schema": STATS_SCHEMA,
        "bases": bases,
        "guided": [asdict(point) for point in curves.guided],
        "blind": [asdict(point) for point in curves.blind],
        "made": dict(curves.made),
        "skipped": [
            {"mutation": name, "reason": reason, "times": n} for (name, reason), n in curves.skipped.most_common()
        ],
    }


def mutations_markdown(mutations: Iterable[Mutation]) -> str:
    """Every mutation by family; `make reference` writes it to docs/mutations.md."""
    lines = [
        "# Mutations",
        "",
        "Each is one small function in `src/mindgap/variants/mutations/`; it acts where its precondition holds and "
        "every operator accepts the change. `weight` is how often it is chosen among those of its intent. Generated "
        "by `make reference`.",
        "",
        "| mutation | family | what it does | needs | weight |",
        "|---|---|---|---|---|",
    ]
    lines += [f"| `{m.name}` | {m.family.value} | {m.summary} | {m.needs} | {m.weight:g} |" for m in mutations]
    return "\n".join([*lines, ""])

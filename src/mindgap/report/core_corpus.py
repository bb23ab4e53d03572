"""A choice of programs as lines and as a page; pure functions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Final

from mindgap.corpus.stats import library_versions
from mindgap.report.markdown import made_with, markdown_table
from mindgap.variants.core_corpus import Core, licence_of

_STEPS: Final = (1, 2, 5, 10, 20, 50, 75, 100, 125, 150, 200, 300)
"""Programs after which the curve is told."""


def core_lines(core: Core) -> list[str]:
    """What was chosen, what it covers, and what it does not and why."""
    left_out = [f"left out, {reason}: {count:,} programs" for reason, count in core.left_out.items()]
    return [*core_summary(core), *left_out, *(f"missing: {name} ({why})" for name, why in core.missing.items())]


def core_summary(core: Core) -> list[str]:
    """What was chosen and what it covers."""
    _, operators, contexts = core.curve[-1]
    total = len(core.operators), len(core.contexts)
    reachable = frozenset().union(*(item.candidate.contexts for item in core.considered if not item.left_out))
    return [
        f"{len(core.chosen)} of {len(core.considered):,} programs, {core.bytes / 1e6:.2f} MB, "
        f"{sum(entry.nodes for entry in core.chosen.values()):,} nodes",
        f"operators: {operators} of {total[0]} ({operators / total[0]:.1%})",
        f"contexts: {contexts:,} of {total[1]:,} ({contexts / total[1]:.1%}); "
        f"{len(reachable):,} are in programs that can be shipped",
    ]


def core_markdown(core: Core) -> str:
    """The same as a page, with the curve and every program."""
    entries = core.chosen
    made = made_with(library_versions(list(entries.values())))
    points = [point for point in core.curve if point[0] in {*_STEPS, len(core.curve)}]
    total = len(core.operators), len(core.contexts)
    curve = [[str(n), f"{ops} ({ops / total[0]:.1%})", f"{c:,} ({c / total[1]:.1%})"] for n, ops, c in points]
    licences = Counter(licence_of(entry.spec) or "" for entry in entries.values()).most_common()
    libraries = Counter(entry.library for entry in entries.values()).most_common()
    sections: list[tuple[str, Sequence[str], list[list[str]]]] = [
        ("how it grows", ["programs", "operators", "contexts"], curve),
        ("operators that are missing", ["operator", "smallest model that has it, and why it was left out"],
         [list(item) for item in core.missing.items()]),
        ("programs that were left out", ["why", "programs"], _counted(core.left_out.items())),
        ("by domain", ["domain", "programs"], _counted(Counter(e.domain for e in entries.values()).most_common())),
        ("by library", ["library", "programs"], _counted(libraries)),
        ("by licence", ["licence", "programs"], _counted(licences)),
        ("programs", ["program", "model", "nodes"],
         [[name.removesuffix(".mgp"), e.spec, str(e.nodes)] for name, e in sorted(entries.items())]),
    ]  # fmt: skip
    lines = [
        "# The core corpus",
        "",
        f"{made} Made by `mindgap corpus core`.",
        "",
        *(f"- {line}" for line in core_summary(core)),
        "",
    ]
    for title, columns, rows in sections:
        lines += [f"## {title}", "", *(markdown_table(columns, rows) if rows else ["none"]), ""]
    return "\n".join(lines)


def _counted(items: Iterable[tuple[str, int]]) -> list[list[str]]:
    return [[name, f"{count:,}"] for name, count in items]

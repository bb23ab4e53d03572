"""The corpus as documents and rows; pure functions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any, Final

from mindgap.corpus.building import Collected, LibraryOffers
from mindgap.corpus.stats import Stats
from mindgap.corpus.store import Entry, Status
from mindgap.report.markdown import made_with, markdown_table
from mindgap.report.summary import count

LIST_SCHEMA: Final = "mindgap.corpus-list/1"
STATS_SCHEMA: Final = "mindgap.corpus-stats/1"
_TOP: Final = 15  # rows of a ranking that a person reads
MOST_UNKNOWN: Final = 5
"""Names of a list that a person wants to see to know what is wrong with it."""

FINGERPRINT_DIGITS: Final = 16
"""Of a listed fingerprint: two of some thousand models share them by chance once in 10^12."""

Rows = list[list[str]]


def list_document(libraries: Sequence[LibraryOffers]) -> dict[str, Any]:
    """The JSON of `mindgap corpus list`."""
    return {
        "schema": LIST_SCHEMA,
        "libraries": {
            item.name: {
                "available": not item.reason,
                "models": len(item.offers),
                "domains": dict(Counter(offer.domain for offer in item.offers)),
                "reason": item.reason,
                "install": item.install or None,
                "offers": [asdict(offer) for offer in item.offers],
            }
            for item in libraries
        },
    }


def library_rows(libraries: Sequence[LibraryOffers]) -> Rows:
    """Library, models, domains, or why not and the command that installs it."""
    rows = []
    for item in libraries:
        if item.reason:
            install = f"; get it with: {item.install}" if item.install else ""
            rows.append([item.name, "-", f"{item.reason}{install}"])
            continue
        domains = Counter(offer.domain for offer in item.offers).most_common()
        rows.append([item.name, str(len(item.offers)), ", ".join(f"{name} {n}" for name, n in domains)])
    return rows


def list_closing(libraries: Sequence[LibraryOffers]) -> str:
    """The list in one sentence."""
    here = [item for item in libraries if not item.reason]
    offered = sum(len(item.offers) for item in here)
    return f"{offered:,} models from {len(here)} of {len(libraries)} libraries."


def collected_lines(done: Collected, directory: str) -> list[str]:
    """What a build did."""
    minutes = done.seconds / 60
    pace = f", {done.built / minutes:.1f} per minute" if done.built else ""
    lines = [
        f"{done.built} built, {done.duplicate} duplicate, {done.failed} failed in {minutes:.1f} minutes{pace}",
        f"{directory} holds {done.total:,} models of these libraries; {done.left:,} more are offered",
    ]
    lines += [f"{item.name} is missing: {item.reason}; get it with: {item.install}" for item in done.missing]
    if done.unknown:
        named = ", ".join(done.unknown[:MOST_UNKNOWN])
        more = len(done.unknown) - MOST_UNKNOWN
        lines.append(f"not offered here: {named}" + (f" and {more} more" if more > 0 else ""))
    return lines


def stats_document(stats: Stats) -> dict[str, Any]:
    """The JSON of `mindgap corpus stats`."""
    return {"schema": STATS_SCHEMA, **asdict(stats), "alive_share": round(stats.alive_share, 4)}


def stats_tables(stats: Stats) -> list[tuple[str, list[str], Rows]]:
    """Title, column titles and rows of each table."""
    statuses = ("built", "duplicate", "failed")
    tried = stats.built + stats.duplicate + stats.failed
    hours = f"{stats.wall_hours:.1f} hours ({stats.cpu_hours:.1f} of work)"
    libraries = [[name, *(str(found.get(s, 0)) for s in statuses)] for name, found in stats.by_library.items()]
    sizes = [
        ["nodes", *map(str, stats.nodes)],
        ["parameters", *map(count, stats.parameters)],
        ["bytes stored", *(f"{size:,}" for size in stats.program_bytes)],
    ]
    megabytes = {name: f"{size / 1e6:.1f} MB" for name, size in stats.stored_bytes.items()}
    alive = f"alive: {stats.alive:,} of {stats.built:,} models ({stats.alive_share:.1%})"
    failures = [[str(c.models), c.stage, c.example, c.reason[:110]] for c in stats.causes[:_TOP]]
    return [
        (f"{stats.built:,} models from {tried:,} offers in {hours}", ["library", *statuses], libraries),
        ("by domain", ["domain", "built"], [[name, str(n)] for name, n in stats.by_domain.items()]),
        (f"{len(stats.operators)} operators", ["models", "operators seen"], [list(map(str, p)) for p in stats.growth]),
        ("sizes", ["", "median", "90%", "most"], sizes),
        ("on disk", list(megabytes), [list(megabytes.values())]),
        (alive, ["not alive", "first dead operator"], [list(item) for item in stats.dead_examples[:_TOP]]),
        ("duplicates", ["the same", "models"], [[what, str(n)] for what, n in stats.duplicates.items()]),
        ("failures", ["models", "stage", "example", "reason"], failures),
    ]


def stats_markdown(stats: Stats) -> str:
    """The tables as a page."""
    made = f"{made_with(stats.versions)} Made by `mindgap corpus build` and `mindgap corpus stats`."
    lines = ["# A built corpus", "", made, ""]
    for title, columns, rows in stats_tables(stats):
        lines += [f"## {title}", "", *(markdown_table(columns, rows) if rows else []), ""]
    return "\n".join(lines)


def models_list(entries: Sequence[Entry]) -> str:
    """Every built model on a line: the beginning of its fingerprint, nodes, name."""
    built = sorted((entry for entry in entries if entry.status is Status.BUILT), key=lambda entry: entry.spec)
    rows = [f"{entry.fingerprint[:FINGERPRINT_DIGITS]}\t{entry.nodes}\t{entry.spec}" for entry in built]
    return "\n".join(["fingerprint\tnodes\tmodel", *rows, ""])

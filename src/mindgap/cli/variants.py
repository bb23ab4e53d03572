"""Make variants of real models and measure their coverage."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from mindgap.cli.options import AsJson, Seed, output, refuse_mistakes

if TYPE_CHECKING:
    from mindgap.variants.registry import Mutation

app = typer.Typer(no_args_is_help=True)

Corpus = Annotated[
    Path | None, typer.Option("--corpus", help="A store of programs. Default: the smoke corpus.", metavar="DIR")
]
Bases = Annotated[
    list[str] | None,
    typer.Argument(
        help="Programs to vary: .mgp files, core:NAME, smoke:NAME, or all of core. Default: all of the corpus.",
        metavar="[BASE]...",
    ),
]


@app.command("make")
def make(
    bases: Bases = None,
    count: Annotated[int, typer.Option("-n", "--count", help="How many.", min=1)] = 100,
    directory: Annotated[Path, output("Where to write them.", "DIR")] = Path("variants"),
    seed: Seed = 0,
    corpus: Corpus = None,
    blind: Annotated[bool, typer.Option("--blind", help="Do not prefer what is not covered yet.")] = False,
    rules: Annotated[
        Path | None, typer.Option(help="A file with learned rules: read if it exists, and updated at the end.")
    ] = None,
) -> None:
    """Make variants: program files, each with its recipe.

    `mindgap check FILE.mgp` runs one on many platforms; `mindgap variants show FILE.mgp` says how it was made.
    """
    refuse_mistakes(programs=bases or (), corpus=corpus)
    _quiet()
    from mindgap.errors import UsageError
    from mindgap.report.console import ProgressLine, show_line
    from mindgap.report.variants import made_lines
    from mindgap.variants import files
    from mindgap.variants.base import load_bases
    from mindgap.variants.synthesis import SHARED_RULES, Synthesis

    if rules is not None and rules.exists() and not SHARED_RULES.load(rules):
        show_line(f"{rules} is ignored: it was learned with another torch")
    with ProgressLine() as progress:
        progress("bases", "loading")
        found = load_bases(bases, corpus)
        by_fingerprint = {base.fingerprint: base for base in found}
        synthesis = Synthesis(found, seed, guided=not blind, plugins=_plugins())
        try:
            directory.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise UsageError(f"cannot write to {directory}", cause=error.strerror) from error
        for number, variant in zip(range(count), synthesis):
            progress.count("variants", number, count)
            files.save(directory, variant, by_fingerprint[variant.provenance.base])
    if rules is not None:
        SHARED_RULES.save(rules)
    for line in made_lines(synthesis, len(found), directory):
        show_line(line)


@app.command("show")
def show(
    file: Annotated[Path, typer.Argument(help="A variant that `variants make` wrote.", metavar="FILE")],
    corpus: Corpus = None,
    base: Annotated[
        str | None, typer.Option(help="The program it was derived from. Default: looked up in the corpus.")
    ] = None,
) -> None:
    """Show how a variant was made.

    Its recipe in words, and a diff against its base, node by node.
    """
    refuse_mistakes(files=[file], programs=[base] if base is not None else (), corpus=corpus)
    _quiet()
    from mindgap.report.console import show_line
    from mindgap.report.variants import shown_lines
    from mindgap.variants import files
    from mindgap.variants.origin import origin_of

    variant = files.load(file)
    for line in shown_lines(variant, origin_of(variant.provenance, base, corpus)):
        show_line(line)


@app.command("stats")
def stats(
    bases: Bases = None,
    count: Annotated[int, typer.Option("-n", "--count", help="How many, guided and blind each.", min=10)] = 2000,
    seed: Seed = 0,
    corpus: Corpus = None,
    as_json: AsJson = False,
) -> None:
    """Show how coverage grows, or what a campaign's variants brought.

    Guided against blind, and which mutations did not fit. Coverage counts what differs from the bases: ATen
    overloads, contexts (operator, dtype, rank, layout, class of its literals) and producer-consumer pairs. With the
    directory of a campaign instead: faults by mutation, operator and platform, and per hour of the platform's time.
    """
    if bases and (Path(bases[0]) / "ledger.sqlite").is_file():
        _show_yields(bases)
        return
    refuse_mistakes(programs=bases or (), corpus=corpus)
    _quiet()
    from mindgap.report.console import ProgressLine, show_json, show_line, show_table
    from mindgap.report.variants import curve_rows, skipped_rows, stats_document
    from mindgap.variants.base import load_bases
    from mindgap.variants.curve import growth

    with ProgressLine() as progress:
        progress("bases", "loading")
        found = load_bases(bases, corpus)
        curves = growth(found, seed, count, lambda what: progress("variants", what), _plugins())
    if as_json:
        show_json(stats_document(curves, len(found)))
        return
    show_table(["variants", "operators", "blind", "contexts", "blind", "pairs", "blind"], curve_rows(curves))
    show_table(["mutation", "made", "did not fit", "most frequent reason"], skipped_rows(curves))
    show_line(f"{count:,} variants of {len(found)} programs, guided against blind, seed {seed}")


def _show_yields(directories: list[str]) -> None:
    from mindgap.campaign.reader import read
    from mindgap.errors import UsageError
    from mindgap.report.campaign import yield_sections
    from mindgap.report.console import show_line, show_table

    if len(directories) > 1:
        raise UsageError("variants stats reads one campaign at a time", hint="name one directory")
    campaign = read(Path(directories[0]))
    for title, table in yield_sections(campaign):
        show_line(title)
        show_table(*table)
    show_line(
        f"{len(campaign.findings):,} findings in {campaign.variants:,} variants and {campaign.fragments:,} fragments"
    )


def _quiet() -> None:
    """Before torch is imported: its kernels warn of deprecations that a user of variants cannot change."""
    os.environ.setdefault("TORCH_CPP_LOG_LEVEL", "ERROR")


def _plugins() -> list[Mutation]:
    """Mutations of installed packages; a package that cannot be imported is reported and left out."""
    from mindgap.report.console import show_line
    from mindgap.variants.registry import plugins

    found, failed = plugins()
    for name, reason in failed.items():
        show_line(f"mutations of {name} are left out: {reason}")
    return found

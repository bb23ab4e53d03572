"""List, build and inspect the corpus of real models."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from mindgap.cli.options import AsJson, AsMarkdown, ModelJobs, Seed, output, refuse_mistakes, split
from mindgap.corpus.files import default_directory

app = typer.Typer(no_args_is_help=True)

Sources = Annotated[
    str | None,
    typer.Option("--source", help="Libraries, comma-separated; a file or directory for your own models. Default: all."),
]
StoreDirectory = Annotated[
    Path | None, typer.Argument(help="The store. Default: ~/.cache/mindgap/corpus.", metavar="DIR")
]


@app.command("list")
def list_(source: Sources = None, as_json: AsJson = False) -> None:
    """List the models of each library, or the command to install it.

    With --source, every model of these libraries is listed by name.
    """
    sources = _sources(source)
    from mindgap.corpus.building import list_libraries
    from mindgap.report.console import ProgressLine, show_json, show_line, show_table
    from mindgap.report.corpus import library_rows, list_closing, list_document

    with ProgressLine() as progress:
        found = list_libraries(sources, progress)
    if as_json:
        show_json(list_document(found))
        return
    if source is not None:
        for library in found:
            if library.offers:
                rows = [[offer.spec, offer.domain, offer.family] for offer in library.offers]
                show_table(["model", "domain", "family"], rows)
    show_table(["library", "models", "domains, or why not"], library_rows(found))
    show_line(list_closing(found))


@app.command("build")
def build(
    models: Annotated[
        int | None, typer.Option(help="Stop when the store holds this many models. Default: build all.", min=1)
    ] = None,
    jobs: ModelJobs = 2,
    source: Sources = None,
    only: Annotated[
        Path | None,
        typer.Option(
            help="Build only these models: a file with one name per line, or from `mindgap corpus stats --models`.",
            metavar="FILE",
        ),
    ] = None,
    seed: Seed = 0,
    store: Annotated[Path | None, output("The store. Default: ~/.cache/mindgap/corpus.", "DIR")] = None,
    retry_failed: Annotated[bool, typer.Option("--retry-failed", help="Retry models that failed before.")] = False,
) -> None:
    """Build models into a store of programs; run again to continue.

    Each model has a process of its own, in which it is loaded, exported, compared bit for bit with its source and
    searched for dead operators. If it crashes, hangs or runs out of memory, only that model is lost.
    """
    sources = _sources(source)
    refuse_mistakes(files=[only])
    from mindgap.corpus.building import build_corpus
    from mindgap.corpus.plan import listed_models
    from mindgap.report.console import ProgressLine, show_line
    from mindgap.report.corpus import collected_lines

    directory = store or default_directory()
    with ProgressLine() as progress:
        done = build_corpus(
            directory, models=models, jobs=jobs, sources=sources,
            only=listed_models(only) if only is not None else None, seed=seed, retry_failed=retry_failed,
            progress=progress,
        )  # fmt: skip
    for line in collected_lines(done, str(directory)):
        show_line(line)


@app.command("stats")
def stats(
    directory: StoreDirectory = None,
    as_json: AsJson = False,
    output: AsMarkdown = None,
    models: Annotated[
        Path | None, typer.Option(help="Also write the built models and their fingerprints.", metavar="FILE")
    ] = None,
    operators: Annotated[
        Path | None,
        typer.Option(
            help="Also write the operators of each model, for `mindgap ops --models FILE`; packed if it ends in .z.",
            metavar="FILE",
        ),
    ] = None,
) -> None:
    """Summarise a store: models, operators, sizes and failures.

    Models by library and domain, how the number of operators grows, the share of models without dead operators, and
    failures by cause.
    """
    directory = directory or default_directory()
    refuse_mistakes(corpus=directory, outputs=[output, models, operators])
    from mindgap.corpus.operator_table import table_file
    from mindgap.corpus.stats import summarise
    from mindgap.corpus.store import Store
    from mindgap.records.files import write_whole
    from mindgap.report.console import show_json, show_line, show_table
    from mindgap.report.corpus import models_list, stats_document, stats_markdown, stats_tables

    with Store(directory) as store:
        entries = store.entries()
        found = summarise(entries, store.size_bytes())
    if output is not None:
        write_whole(output, stats_markdown(found))
    if models is not None:
        write_whole(models, models_list(entries))
    if operators is not None:
        write_whole(operators, table_file(entries, operators))
    if as_json:
        show_json(stats_document(found))
        return
    for title, columns, rows in stats_tables(found):
        show_line(f"\n{title}")
        if rows:
            show_table(columns, rows)


@app.command("core")
def core(
    folder: Annotated[Path, output("The folder for the programs; those of an earlier choice are replaced.", "DIR")],
    directory: StoreDirectory = None,
    programs: Annotated[int, typer.Option(help="How many programs to choose at most.", min=1)] = 220,  # 97% of contexts
    markdown: Annotated[Path | None, typer.Option(help="Also write the coverage as a page.", metavar="FILE")] = None,
) -> None:
    """Choose few programs that have all operators of a store.

    A greedy set cover: first all operators, then as many contexts (operator, dtypes, rank, layout, literals) as so many
    programs can hold, small programs first. What has a licence that does not allow to pass it on, needs stored weights
    or is too large for fast campaigns is left out. The core corpus that comes with mindgap was made so.
    """
    directory = directory or default_directory()
    refuse_mistakes(corpus=directory, outputs=[None if folder.is_dir() else folder, markdown])
    from mindgap.corpus.store import Store
    from mindgap.records.files import write_whole
    from mindgap.report.console import ProgressLine, show_line
    from mindgap.report.core_corpus import core_lines, core_markdown
    from mindgap.variants.core_corpus import choose_core, write_core

    with Store(directory) as store:
        with ProgressLine() as progress:
            chosen = choose_core(store, programs, lambda done, total: progress.count("programs", done, total))
        write_core(store, chosen, folder)
    if markdown is not None:
        write_whole(markdown, core_markdown(chosen))
    for line in core_lines(chosen):
        show_line(line)


@app.command("replay")
def replay(
    directory: StoreDirectory = None,
    count: Annotated[int, typer.Option(help="How many models to choose at random.", min=1)] = 100,
    seed: Seed = 0,
    jobs: ModelJobs = 2,
) -> None:
    """Compare stored programs bit for bit with their source models.

    Exit code: 0 all are the same, 1 a program differs from its source, 2 wrong usage, 3 a bug in mindgap.
    """
    directory = directory or default_directory()
    refuse_mistakes(corpus=directory)
    from mindgap.corpus.replaying import replay_corpus
    from mindgap.report.console import ProgressLine, show_line, show_table

    with ProgressLine() as progress:
        found = replay_corpus(directory, count=count, seed=seed, jobs=jobs, progress=progress)
    different = [item for item in found if item.different]
    if different:
        show_table(["model", "what differs"], [[item.spec, item.different] for item in different])
    show_line(f"{len(found) - len(different)} of {len(found)} programs give their source's bits (seed {seed})")
    if different:
        raise typer.Exit(1)


def _sources(source: str | None) -> list[str] | None:
    """Libraries by name, and files and directories that exist."""
    from mindgap.corpus.spelling import refuse_source

    names = None if source is None else split(source, "--source")
    for name in names or ():
        refuse_source(name)
    return names

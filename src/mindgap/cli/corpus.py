"""Real models as programs: what libraries offer, building them into a store, and what the store holds."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer(no_args_is_help=True)

AsJson = Annotated[bool, typer.Option("--json", help="Print a JSON document instead.")]
Sources = Annotated[
    str | None,
    typer.Option("--source", help="Libraries, comma-separated; a file or directory is your own models. Default: all."),
]
StoreDirectory = Annotated[
    Path | None, typer.Argument(help="The store. Default: ~/.cache/mindgap/corpus.", metavar="DIR")
]


@app.command("list")
def list_(source: Sources = None, as_json: AsJson = False) -> None:
    """List what each library offers here, or the command that installs it; with --source, every model of it."""
    from mindgap.corpus.building import list_libraries
    from mindgap.report.console import ProgressLine, show_json, show_line, show_table
    from mindgap.report.corpus import library_rows, list_closing, list_document, offer_rows

    with ProgressLine() as progress:
        found = list_libraries(_split(source), progress)
    if as_json:
        show_json(list_document(found))
        return
    if source is not None:
        for library in found:
            if library.offers:
                show_table(["model", "domain", "family"], offer_rows(library))
    show_table(["library", "models", "domains, or why not"], library_rows(found))
    show_line(list_closing(found))


@app.command("build")
def build(
    models: Annotated[
        int | None, typer.Option(help="Stop when the store holds this many models. Default: build all.", min=1)
    ] = None,
    jobs: Annotated[int, typer.Option(help="Models to build at once.", min=1)] = 2,
    source: Sources = None,
    seed: Annotated[int, typer.Option(help="Makes weights and inputs repeatable.")] = 0,
    output: Annotated[
        Path | None, typer.Option("-o", "--output", help="The store. Default: ~/.cache/mindgap/corpus.", metavar="DIR")
    ] = None,
    retry_failed: Annotated[bool, typer.Option("--retry-failed", help="Retry models that failed before.")] = False,
) -> None:
    """Build models into a store of programs; run it again to continue.

    Each model is loaded, exported, compared bit for bit with its source and checked for dead operators in its own
    process, so a crash, a hang or a lack of memory does not stop the build.
    """
    from mindgap.corpus.building import build_corpus
    from mindgap.corpus.store import default_directory
    from mindgap.report.console import ProgressLine, show_line
    from mindgap.report.corpus import collected_lines

    directory = output or default_directory()
    with ProgressLine() as progress:
        done = build_corpus(
            directory,
            models=models,
            jobs=jobs,
            sources=_split(source),
            seed=seed,
            retry_failed=retry_failed,
            progress=progress,
        )
    for line in collected_lines(done, str(directory)):
        show_line(line)


@app.command("stats")
def stats(
    directory: StoreDirectory = None,
    as_json: AsJson = False,
    output: Annotated[
        Path | None, typer.Option("-o", "--output", help="Also write the tables as Markdown.", metavar="FILE")
    ] = None,
    models: Annotated[
        Path | None,
        typer.Option(help="Also write the list of built models and their fingerprints.", metavar="FILE"),
    ] = None,
) -> None:
    """Say what a store holds: models by library and domain, operators and how their number grows, sizes, the share
    of models without dead operators, and failures ranked by cause."""
    from mindgap.corpus.stats import summarise
    from mindgap.corpus.store import Store, default_directory
    from mindgap.records.files import write_whole
    from mindgap.report.console import show_json, show_line, show_table
    from mindgap.report.corpus import models_list, stats_document, stats_markdown, stats_tables

    with Store(directory or default_directory()) as store:
        entries = store.entries()
        found = summarise(entries, store.size_bytes())
    if output is not None:
        write_whole(output, stats_markdown(found).encode())
    if models is not None:
        write_whole(models, models_list(entries).encode())
    if as_json:
        show_json(stats_document(found))
        return
    for title, columns, rows in stats_tables(found):
        show_line(f"\n{title}")
        if rows:
            show_table(columns, rows)


@app.command("replay")
def replay(
    directory: StoreDirectory = None,
    count: Annotated[int, typer.Option(help="How many models to choose at random.", min=1)] = 100,
    seed: Annotated[int, typer.Option(help="Makes the choice repeatable.")] = 0,
    jobs: Annotated[int, typer.Option(help="Models to compare at once.", min=1)] = 2,
) -> None:
    """Compare stored programs bit for bit with the models that they came from; exit code 1 if any differs."""
    from mindgap.corpus.replaying import replay_corpus
    from mindgap.corpus.store import default_directory
    from mindgap.report.console import ProgressLine, show_line, show_table

    with ProgressLine() as progress:
        found = replay_corpus(directory or default_directory(), count=count, seed=seed, jobs=jobs, progress=progress)
    different = [item for item in found if item.different]
    if different:
        show_table(["model", "what differs"], [[item.spec, item.different] for item in different])
    show_line(f"{len(found) - len(different)} of {len(found)} programs give their source's bits (seed {seed})")
    if different:
        raise typer.Exit(1)


def _split(text: str | None) -> list[str] | None:
    from mindgap.errors import UsageError

    if text is None:
        return None
    parts = list(dict.fromkeys(part.strip() for part in text.split(",") if part.strip()))
    if not parts:
        raise UsageError("--source is empty")
    return parts

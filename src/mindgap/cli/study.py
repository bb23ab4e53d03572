"""Run the whole study on the platforms you have.

\b
  mindgap study -o out/study --hours 8                 # all platforms that are ready, the core corpus
  mindgap study -o out/study --hours 8 --dry-run       # measures for some minutes and prints the plan
  mindgap study -o out/study --hours 2                 # again: continues

Unmodified models, variants of them, fragments and single operators run on every platform next to eager; what differs is
judged, explained and grouped by cause. Time goes where it finds something. Tables are in DIR/study.json and
DIR/tables, pages in DIR/report.html and beside it (docs/study.md).

Exit code: 0 when the study ran, whatever it found; 2 wrong usage; 3 a bug in mindgap; 130, 143 or 129 interrupted.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from mindgap.cli.options import ConfigFile, Jobs, On, is_given, output, refuse_mistakes, split, store_of

if TYPE_CHECKING:
    from mindgap.platforms.config import Config
    from mindgap.study.plan import StudyPlan
    from mindgap.study.running import Study

EXIT_INTERRUPTED = 130
ALL = "all"


def command(
    context: typer.Context,
    directory: Annotated[Path, output("The study's directory; one that holds a study is continued.", "DIR")],
    hours: Annotated[float, typer.Option(help="How long to run.", min=0.01)] = 8.0,
    on: On = None,
    models: Annotated[
        str,
        typer.Option(
            help="Real models: a corpus that comes with mindgap (core, smoke) or programs of it (core:NAME), "
            "comma-separated, a directory from `mindgap corpus build`, or how many to build now.",
            metavar="core|DIR|COUNT",
        ),
    ] = "core",
    variants: Annotated[int, typer.Option(help="Variants at most, and as many fragments.", min=1)] = 100_000,
    phases: Annotated[
        str | None, typer.Option(help="Only these of models, variants, fragments, operators, in this run.")
    ] = None,
    seed: Annotated[int, typer.Option(help="Decides which variants are made.")] = 0,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only measure the pace and print the plan.")] = False,
    jobs: Jobs = None,
    config: ConfigFile = None,
) -> None:
    names = [] if on in (None, ALL) else split(str(on), "--on")
    store = store_of(models) if not models.isdigit() else None
    named = () if store is not None or models.isdigit() else tuple(split(models, "--models"))
    refuse_mistakes(on=names, config=config, corpus=store, programs=named)
    from mindgap.platforms.config import load_config
    from mindgap.report.campaign_console import StudyProgress
    from mindgap.session.session import import_paths
    from mindgap.study.plan import PLAN, StudyPlan, chosen_phases, open_plan
    from mindgap.study.running import Study

    chosen = chosen_phases(split(phases, "--phases") if phases is not None else None)
    settings = load_config(config)
    fixed = any(is_given(context, name) for name in ("on", "models", "variants", "seed"))
    given = None
    if fixed or not (directory / PLAN).exists():
        store = _built(directory, int(models), seed) if models.isdigit() else store
        place = str(store.resolve()) if store is not None else None
        given = StudyPlan(_platforms(names, settings), variants, named or None, place, seed)
    plan = open_plan(directory, given)
    with StudyProgress() as progress:
        study = Study(directory, plan, settings, jobs, progress.of_phase, import_paths(), chosen)
        reason = study.look() if dry_run else study.run(hours)
    _finish(study, plan, reason, hours, dry_run)


def _platforms(names: list[str], config: Config) -> tuple[str, ...]:
    """The chosen platforms, or all that are ready here; what is left out is told with the reason."""
    from mindgap.campaign.plan import with_baseline
    from mindgap.platforms.registry import catalogue
    from mindgap.report.console import show_line
    from mindgap.session.session import Session

    if names:
        return with_baseline(names)
    candidates = [spec.name for spec in catalogue(config) if not spec.emulates]
    with Session(config) as session:
        probes = session.platforms(candidates)
    ready = [name for name in candidates if probes[name].available]
    if left := len(candidates) - len(ready):
        show_line(f"left out: {left} platforms that are not ready here (mindgap platforms)")
    return with_baseline(ready)


def _built(directory: Path, count: int, seed: int) -> Path:
    """A corpus of so many models from the installed libraries; one that is there is completed."""
    from mindgap.corpus.building import build_corpus
    from mindgap.report.console import ProgressLine
    from mindgap.study.plan import CORPUS

    with ProgressLine() as progress:
        build_corpus(directory / CORPUS, models=count, seed=seed, progress=progress)
    return directory / CORPUS


def _finish(study: Study, plan: StudyPlan, reason: str, hours: float, dry_run: bool) -> None:
    from mindgap.report.console import show_line, show_table
    from mindgap.report.study import PLANNED, ending_line, planned_rows, spent_line
    from mindgap.study.running import due

    if dry_run:
        show_line(f"{hours:g} hours at the pace measured so far; explanations take 15% of them")
        show_table(list(PLANNED), planned_rows(plan, study.turns, hours, {p: due(plan, p) for p in study.phases}))
    else:
        write_results(study.directory, plan)
        show_line(spent_line(study.turns))
        show_line(ending_line(reason, str(study.directory), hours))
    if reason == "interrupted":
        raise typer.Exit(EXIT_INTERRUPTED)


def write_results(directory: Path, plan: StudyPlan) -> None:
    """Tables as JSON, CSV and where pyarrow is installed Parquet; figures; the page of the study and of each phase."""
    import json
    from importlib.util import find_spec

    from mindgap.campaign.export import write_table
    from mindgap.records.files import write_whole
    from mindgap.report.console import show_line
    from mindgap.report.page.charts import write_figures
    from mindgap.report.page.of_results import content_of
    from mindgap.report.page.of_study import page_of, study_content
    from mindgap.report.page.render import page
    from mindgap.report.study import study_document, study_markdown
    from mindgap.report.sweeps import operators_document
    from mindgap.study.budget import read_turns
    from mindgap.study.plan import OPERATORS
    from mindgap.study.tables import campaigns_of, tables_of

    campaigns = campaigns_of(directory)
    tables = tables_of(directory, read_turns(directory), campaigns)
    operators = operators_document(directory / OPERATORS) if OPERATORS in campaigns else None
    write_whole(directory / "study.json", json.dumps(study_document(plan, campaigns, tables, operators), indent=1))
    write_whole(directory / "study.md", study_markdown(campaigns, tables))
    for folder in ("tables", "figures"):
        (directory / folder).mkdir(exist_ok=True)
    for table in tables:
        write_table(directory / "tables", table.name, table.columns, table.rows, parquet=False)
        if find_spec("pyarrow") is not None:
            write_table(directory / "tables", table.name, table.columns, table.rows, parquet=True)
    for phase in campaigns:
        write_whole(directory / page_of(phase), page(content_of(directory / phase)))
    content = study_content(directory)
    write_whole(directory / "report.html", page(content))
    for _ in write_figures(tuple(content.figures), directory / "figures"):
        pass
    show_line(content.conclusion)
    show_line(", ".join(str(directory / name) for name in ("report.html", "study.md", "study.json")))

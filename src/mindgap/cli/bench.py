"""Measure what each stage costs; every benchmark states what it measured and compares within one run."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from mindgap.bench.measurement import Measurement

app = typer.Typer(no_args_is_help=True)

AsJson = Annotated[bool, typer.Option("--json", help="Print a JSON document instead.")]
Output = Annotated[
    Path | None, typer.Option("-o", "--output", help="Also write the result as Markdown.", metavar="FILE")
]
Rounds = Annotated[int, typer.Option(help="How often to repeat; the median counts.", min=1)]


@app.command("check")
def check(rounds: Rounds = 3, as_json: AsJson = False, output: Output = None) -> None:
    """What `mindgap check` costs beyond the runtimes' own work, cold and with warm workers."""
    from mindgap.bench.check import measure

    _show(lambda _: measure(rounds), as_json, output)


@app.command("roundtrip")
def roundtrip(as_json: AsJson = False, output: Output = None) -> None:
    """Over forty real models of timm and transformers: the share that becomes a program and gives the source's bits."""
    from mindgap.bench.roundtrip import measure

    _show(measure, as_json, output)


@app.command("cases")
def cases(
    folder: Annotated[Path, typer.Option(help="A folder of cases with its truth.json.")] = Path("cases"),
    only: Annotated[list[str] | None, typer.Option(help="Names of cases; all by default.")] = None,
    as_json: AsJson = False,
    output: Output = None,
) -> None:
    """How the verdicts do on real divergences and controls whose truth is known."""
    from mindgap.bench.cases import measure

    _show(lambda tell: measure(tell, folder, only or ()), as_json, output)


@app.command("memory")
def memory(
    megabytes: Annotated[int, typer.Option(help="Size of the output; as much disk is needed.")] = 2048,
    as_json: AsJson = False,
    output: Output = None,
) -> None:
    """How much memory it takes to judge a very large output: a real one of 2 GB by default, in a fresh process."""
    from mindgap.bench.memory import measure

    _show(lambda tell: measure(tell, megabytes << 18), as_json, output)


@app.command("explain")
def explain(
    folder: Annotated[Path, typer.Option(help="A folder of cases with its truth.json.")] = Path("cases"),
    on: Annotated[list[str] | None, typer.Option(help="Platforms; all that diverge by default.")] = None,
    only: Annotated[list[str] | None, typer.Option(help="Names of cases; all by default.")] = None,
    budget: Annotated[float, typer.Option(help="Seconds for each reduction.", min=1)] = 60.0,
    keep: Annotated[Path | None, typer.Option(help="Rows that were made; a second run goes on.")] = None,
    within: Annotated[bool, typer.Option("--within", help="Put each case in the middle of a real program.")] = False,
    jobs: Annotated[int, typer.Option(help="Explanations at the same time.", min=1)] = 2,
    as_json: AsJson = False,
    output: Output = None,
) -> None:
    """How explanations do on real differences: located, reduced to a few operators, proven by a script."""
    from mindgap.bench.explain import measure

    _show(lambda tell: measure(tell, folder, on or (), only or (), budget, keep, within, jobs), as_json, output)


@app.command("quality")
def quality(
    count: Annotated[int, typer.Option(help="Faults to plant; nine of ten reach an output.", min=1)] = 230,
    seed: Annotated[int, typer.Option(help="The same seed gives the same variants and faults.")] = 0,
    keep: Annotated[Path | None, typer.Option(help="Rows that were made; a second run goes on.")] = None,
    jobs: Annotated[int, typer.Option(help="Explanations at the same time.", min=1)] = 2,
    as_json: AsJson = False,
    output: Output = None,
) -> None:
    """How well explanations find planted faults: ten kinds of them, in variants of real models."""
    from mindgap.bench.quality import measure

    _show(lambda tell: measure(tell, count, seed, keep, jobs), as_json, output)


@app.command("verdicts")
def verdicts(rounds: Rounds = 5, as_json: AsJson = False, output: Output = None) -> None:
    """What a verdict costs: noise, survey and judgement as multiples of one plain run."""
    from mindgap.bench.verdicts import measure

    _show(lambda tell: measure(tell, rounds), as_json, output)


@app.command("calibration")
def calibration(
    programs: Annotated[int, typer.Option(help="Small random programs that must stay silent.", min=4)] = 2000,
    planted: Annotated[int, typer.Option(help="Planted faults of each size.", min=1)] = 500,
    as_json: AsJson = False,
    output: Output = None,
) -> None:
    """Are verdicts silent where nothing is wrong, and do they find what is?"""
    from mindgap.bench.calibration import measure

    _show(lambda tell: measure(tell, programs, planted), as_json, output)


@app.command("corpus")
def corpus(
    models: Annotated[int, typer.Option(help="Models to build, as diverse as the whole corpus.", min=1)] = 40,
    jobs: Annotated[int, typer.Option(help="Models at work at the same time.", min=1)] = 2,
    as_json: AsJson = False,
    output: Output = None,
) -> None:
    """How fast the corpus is built and how much room it takes: models a minute, MB for 1,000 models."""
    from mindgap.bench.corpus import measure

    _show(lambda tell: measure(tell, models, jobs), as_json, output)


@app.command("synthesis")
def synthesis(
    variants: Annotated[int, typer.Option(help="Variants that reach is counted over.", min=100)] = 20_000,
    executed: Annotated[int, typer.Option(help="Variants that really run on eager.", min=50)] = 5_000,
    long: Annotated[int, typer.Option(help="Variants that memory is watched over.", min=100)] = 100_000,
    part: Annotated[list[str] | None, typer.Option(help="Only pace, edits, running or reach. Default: all.")] = None,
    as_json: AsJson = False,
    output: Output = None,
) -> None:
    """How fast variants are made, what an edit costs by graph size, what they reach, and the share that runs."""
    os.environ.setdefault("TORCH_CPP_LOG_LEVEL", "ERROR")  # kernels warn of what variants do on purpose
    from mindgap.bench.synthesis import PARTS, measure

    _show(lambda tell: measure(tell, variants, executed, long, part or PARTS), as_json, output)


@app.command("hunt")
def hunt(
    variants: Annotated[int, typer.Option(help="Variants of each campaign.", min=50)] = 400,
    rounds: Annotated[int, typer.Option(help="How often each is repeated, in turns.", min=1)] = 1,
    as_json: AsJson = False,
    output: Output = None,
) -> None:
    """How fast a campaign is: variants a second through eager, eager@scalar and float64, one and two at a time."""
    from mindgap.bench.hunt import measure

    _show(lambda tell: measure(tell, variants, rounds=rounds), as_json, output)


@app.command("endurance")
def endurance(
    keep: Annotated[Path, typer.Option(help="The campaign's directory; a second run goes on.", metavar="DIR")],
    variants: Annotated[int, typer.Option(help="Variants of the campaign.", min=10)] = 100_000,
    as_json: AsJson = False,
    output: Output = None,
) -> None:
    """Whether a long campaign keeps its pace and its memory: 100,000 variants on eager and eager@scalar."""
    from mindgap.bench.endurance import measure

    _show(lambda tell: measure(tell, keep, variants), as_json, output)


def _show(measure: Callable[[Callable[[str, str], None]], Measurement], as_json: bool, output: Path | None) -> None:
    from mindgap.records.files import write_whole
    from mindgap.report.console import ProgressLine, show_json, show_line, show_table
    from mindgap.report.summary import measurement_markdown

    with ProgressLine() as progress:
        progress("bench", "measuring")
        found = measure(progress)
    if output is not None:
        write_whole(output, measurement_markdown(found.document(), " ".join(["mindgap", *sys.argv[1:]])))
    if as_json:
        show_json(found.document())
        return
    show_line(f"{found.name}: {found.what}")
    show_line(f"on {found.on}")
    titles = list(found.rows[0])
    show_table(titles, [[str(row[title]) for title in titles] for row in found.rows])
    show_line(found.conclusion)

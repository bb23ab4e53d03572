"""Make variants of real models, run them on many platforms, and group what differs into findings.

\b
  mindgap hunt --on eager@scalar,inductor --variants 1000 --sample inductor=5% -o out/hunt
  mindgap hunt --resume out/hunt

Every platform is compared with eager, and both with float64; findings are in the terminal, in DIR/summary.md and in
DIR/ledger.sqlite (docs/hunt.md). Ctrl-C, a kill or a power cut lose about a second; --resume goes on exactly there.

Exit code: 0 nothing was found, 1 there are findings that are not known yet, 2 wrong usage, 3 a bug in mindgap.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from mindgap.cli.options import ConfigFile, Jobs, KnownFile, split

if TYPE_CHECKING:
    from mindgap.campaign.hunt import Ending
    from mindgap.campaign.plan import Plan


def command(
    on: Annotated[
        str | None,
        typer.Option(
            help="Platforms, comma-separated; eager is always among them. "
            "Default: eager@scalar,inductor,onnxruntime,openvino."
        ),
    ] = None,
    variants: Annotated[int, typer.Option(help="How many variants to make.", min=1)] = 10_000,
    corpus: Annotated[
        str | None,
        typer.Option(
            help="Real models to vary: a directory made by `mindgap corpus build`, or programs (smoke:NAME, "
            "FILE.mgp), comma-separated. Default: the smoke corpus that comes with mindgap."
        ),
    ] = None,
    hours: Annotated[float | None, typer.Option(help="Stop after so many hours; --resume goes on.", min=0)] = None,
    seed: Annotated[int, typer.Option(help="The same seed gives the same variants and findings.")] = 0,
    sample: Annotated[
        list[str] | None,
        typer.Option(help="A platform that is expensive sees only a part: inductor=5%.", metavar="PLATFORM=SHARE"),
    ] = None,
    output: Annotated[
        Path | None, typer.Option("-o", "--output", help="The directory of the new campaign.", metavar="DIR")
    ] = None,
    resume: Annotated[
        Path | None, typer.Option(help="Go on with the campaign in this directory.", metavar="DIR")
    ] = None,
    jobs: Jobs = None,
    explain: Annotated[
        float, typer.Option(help="Seconds for finding operators and causes, while it runs and at the end.", min=0)
    ] = 300.0,
    timeout: Annotated[float, typer.Option(help="CPU seconds for one program on one platform.", min=1)] = 120.0,
    cluster: Annotated[
        str | None,
        typer.Option(help="Run on the Ray cluster at this address (auto: the one that is running).", metavar="ADDRESS"),
    ] = None,
    known: KnownFile = None,
    config: ConfigFile = None,
) -> None:
    from mindgap.campaign.hunt import hunt
    from mindgap.campaign.known import load_known
    from mindgap.errors import UsageError
    from mindgap.platforms.config import load_config
    from mindgap.report.campaign_console import HuntProgress
    from mindgap.session.session import import_paths

    if (output is None) == (resume is None):
        raise UsageError("use -o DIR to start a campaign or --resume DIR to continue one")
    directory = output or resume
    assert directory is not None
    plan = None if resume is not None else _plan(on, variants, corpus, seed, sample or [], timeout)
    listed = load_known(known) if known is not None else []
    with HuntProgress() as progress:
        ending = hunt(
            directory,
            plan,
            hours=hours,
            jobs=jobs,
            config=load_config(config),
            known=listed,
            cluster=cluster,
            explain_s=explain,
            watch=progress,
            import_paths=import_paths(),
        )
    finish(directory, ending)


def finish(directory: Path, ending: Ending) -> None:
    """Print what was found, write the page, and leave with the exit code that says whether there is news."""
    from mindgap.records.files import write_whole
    from mindgap.report.campaign import campaign_markdown
    from mindgap.report.campaign_console import show_campaign

    write_whole(directory / "summary.md", campaign_markdown(ending.campaign))
    show_campaign(ending.campaign, ending.reason)
    if ending.campaign.new:
        raise typer.Exit(1)


def _plan(on: str | None, variants: int, corpus: str | None, seed: int, sample: list[str], timeout: float) -> Plan:
    from mindgap.campaign.plan import Plan, parse_shares, with_baseline
    from mindgap.session.session import DEFAULT_PLATFORMS

    platforms = with_baseline(split(on, "--on") if on is not None else list(DEFAULT_PLATFORMS))
    directory = corpus if corpus is not None and Path(corpus).is_dir() else None
    named = None if corpus is None or directory is not None else tuple(split(corpus, "--corpus"))
    return Plan(
        platforms=platforms,
        variants=variants,
        seed=seed,
        corpus=named,
        corpus_directory=str(Path(directory).resolve()) if directory is not None else None,
        shares=parse_shares(sample, platforms),
        timeout_s=timeout,
    )

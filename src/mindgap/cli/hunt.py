"""Run many variants of real models and group what differs.

\b
  mindgap hunt --on eager@scalar,inductor --variants 1000 --sample inductor=5% -o out/hunt
  mindgap hunt --resume out/hunt

Every platform is compared with eager, and both with float64. Findings are printed and kept in DIR/summary.md and
DIR/ledger.sqlite (docs/hunt.md). Ctrl-C, a kill or a power cut costs about a second of work; --resume continues from
there.

Exit code: 0 nothing was found, 1 there are new findings, 2 wrong usage, 3 a bug in mindgap.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from mindgap.cli.options import ConfigFile, Jobs, KnownFile, On, Seed, output, split

if TYPE_CHECKING:
    from mindgap.campaign.hunt import Ending
    from mindgap.campaign.plan import Plan


def command(
    on: On = None,
    variants: Annotated[int, typer.Option(help="How many variants to make.", min=1)] = 10_000,
    corpus: Annotated[
        str | None,
        typer.Option(
            help="Models to vary: a directory from `mindgap corpus build`, or programs (smoke:NAME, FILE.mgp), "
            "comma-separated. Default: the smoke corpus that comes with mindgap."
        ),
    ] = None,
    hours: Annotated[float | None, typer.Option(help="Stop after this many hours; --resume continues.", min=0)] = None,
    seed: Seed = 0,
    sample: Annotated[
        list[str] | None,
        typer.Option(help="Run only this share on an expensive platform: inductor=5%.", metavar="PLATFORM=SHARE"),
    ] = None,
    new: Annotated[Path | None, output("Start a campaign in this directory.", "DIR")] = None,
    resume: Annotated[Path | None, typer.Option(help="Continue the campaign in this directory.", metavar="DIR")] = None,
    jobs: Jobs = None,
    explain: Annotated[
        float, typer.Option(help="Seconds for explaining findings, during the run and at its end.", min=0)
    ] = 300.0,
    timeout: Annotated[float, typer.Option(help="CPU seconds per program and platform.", min=1)] = 120.0,
    cluster: Annotated[
        str | None,
        typer.Option(help="Run on the Ray cluster at this address; auto for the running one.", metavar="ADDRESS"),
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

    directory = new or resume
    if directory is None or (new and resume):
        raise UsageError("use -o DIR to start a campaign or --resume DIR to continue one")
    plan = None if resume is not None else _plan(on, variants, corpus, seed, sample or [], timeout)
    listed = load_known(known) if known is not None else []
    with HuntProgress() as progress:
        ending = hunt(
            directory, plan, hours=hours, jobs=jobs, config=load_config(config), known=listed, cluster=cluster,
            explain_s=explain, watch=progress, import_paths=import_paths(),
        )  # fmt: skip
    finish(directory, ending)


def finish(directory: Path, ending: Ending) -> None:
    """Print what was found, write the page, and exit with 1 if there is anything new."""
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
    directory = str(Path(corpus).resolve()) if corpus is not None and Path(corpus).is_dir() else None
    named = None if corpus is None or directory is not None else tuple(split(corpus, "--corpus"))
    shares = parse_shares(sample, platforms)
    return Plan(platforms, variants, seed, named, directory, shares=shares, timeout_s=timeout)

"""Run many variants of real models and group what differs.

\b
  mindgap hunt --on eager@scalar,inductor --variants 1000 --sample inductor=5% -o out/hunt
  mindgap hunt --resume out/hunt

Every platform is compared with eager, and both with float64. Findings are printed and kept in DIR/summary.md and
DIR/ledger.sqlite (docs/hunt.md). Ctrl-C, a kill or a power cut costs about a second of work; --resume continues from
there.

Exit code: 0 nothing that --fail-on names was found, 1 something was that --known does not list, 2 wrong usage, 3 a bug
in mindgap, 130, 143 or 129 interrupted by Ctrl-C, SIGTERM or SIGHUP. Reaching --hours is no interruption.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from mindgap.cli.options import (
    FAIL_ON,
    ConfigFile,
    FailOn,
    Isolate,
    Jobs,
    JunitFile,
    KnownFile,
    MarkdownFile,
    On,
    Seed,
    conclusions,
    is_given,
    output,
    refuse_mistakes,
    split,
    store_of,
)
from mindgap.errors import UsageError

if TYPE_CHECKING:
    from mindgap.campaign.hunt import Ending
    from mindgap.campaign.plan import Plan
    from mindgap.platforms.config import Config
    from mindgap.records.verdict import Conclusion

EXIT_INTERRUPTED: Final = 130
FIXED: Final = ("on", "corpus", "seed", "fragments", "sample", "timeout")
"""Options that decide what a campaign is: a campaign that is resumed has them already."""


def command(
    context: typer.Context,
    on: On = None,
    variants: Annotated[
        int, typer.Option(help="How many variants to make; with --resume, how many in all.", min=1)
    ] = 10_000,
    corpus: Annotated[
        str,
        typer.Option(
            help="Models to vary: a corpus that comes with mindgap (core, smoke), a directory from `mindgap corpus "
            "build`, or programs (core:NAME, FILE.mgp), comma-separated."
        ),
    ] = "core",
    hours: Annotated[float | None, typer.Option(help="Stop after this many hours; --resume continues.", min=0)] = None,
    seed: Seed = 0,
    fragments: Annotated[
        str,
        typer.Option(
            help="Share of the programs that are fragments: a few operators, many in one run.", metavar="SHARE"
        ),
    ] = "50%",
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
    fail_on: FailOn = FAIL_ON,
    isolate: Isolate = False,
    known: KnownFile = None,
    config: ConfigFile = None,
    junit: JunitFile = None,
    markdown: MarkdownFile = None,
) -> None:
    directory = new or resume
    if directory is None or (new and resume):
        raise UsageError("use -o DIR to start a campaign or --resume DIR to continue one")
    fixed = [f"--{name}" for name in FIXED if is_given(context, name)]
    if resume is not None and fixed:
        raise UsageError(
            f"{' and '.join(fixed)} cannot be changed when a campaign is resumed",
            cause=f"{resume} continues with the plan that it was started with",
            hint="start another campaign with -o DIR; --variants, --hours, --explain and --jobs can be changed",
        )
    failing = conclusions(fail_on)
    store = store_of(corpus)
    refuse_mistakes(
        on=split(on, "--on") if on is not None else (), config=config, campaign=resume, files=[known],
        outputs=[junit, markdown],
        corpus=store, programs=split(corpus, "--corpus") if store is None else (),
    )  # fmt: skip
    from mindgap.campaign.hunt import hunt
    from mindgap.campaign.known import load_known
    from mindgap.platforms.config import load_config
    from mindgap.report.campaign_console import HuntProgress
    from mindgap.session.session import import_paths

    settings = load_config(config)
    plan = None if resume is not None else _plan(on, variants, corpus, seed, fragments, sample or [], timeout)
    plan = _on_what_is_ready(plan, settings) if plan is not None and on is None else plan
    more = variants if plan is None and is_given(context, "variants") else None
    listed = load_known(known) if known is not None else []
    with HuntProgress() as progress:
        ending = hunt(
            directory, plan, variants=more, hours=hours,
            jobs=jobs, config=settings, known=listed, cluster=cluster,
            explain_s=explain, watch=progress, import_paths=import_paths(), isolated=isolate,
        )  # fmt: skip
    _write_for_builds(ending, failing, junit, markdown)
    finish(directory, ending, failing)


def _write_for_builds(
    ending: Ending, failing: Collection[Conclusion], junit: Path | None, markdown: Path | None
) -> None:
    from mindgap.records.files import write_whole
    from mindgap.report import ci
    from mindgap.report.page.of_campaign import conclusion_of

    if junit is not None:
        tests = ci.campaign_tests(ending.campaign, {item.value for item in failing})
        write_whole(junit, ci.junit(list(tests), "mindgap hunt"))
    if markdown is not None:
        write_whole(markdown, ci.campaign_summary(ending.campaign, conclusion_of(ending.campaign)))


def finish(directory: Path, ending: Ending, failing: Collection[Conclusion]) -> None:
    """Print what was found, write the page, and exit with 1 if a verdict among these is new."""
    from mindgap.records.files import write_whole
    from mindgap.report.campaign import campaign_markdown
    from mindgap.report.campaign_console import show_campaign

    write_whole(directory / "summary.md", campaign_markdown(ending.campaign))
    show_campaign(ending.campaign, ending.reason)
    if ending.reason == "interrupted":
        raise typer.Exit(EXIT_INTERRUPTED)
    if not ending.campaign.conclusions.isdisjoint(failing):
        raise typer.Exit(1)


def _on_what_is_ready(plan: Plan, config: Config) -> Plan:
    """The plan without the platforms that cannot be used here, which are named with what would make them ready."""
    from mindgap.report.console import show_line
    from mindgap.session.session import Session

    with Session(config) as session:
        left_out = session.unready_platforms()
    for name, reason in left_out.items():
        show_line(f"left out: {name} ({reason})")
    shares = {name: share for name, share in plan.shares.items() if name not in left_out}
    return replace(plan, platforms=tuple(name for name in plan.platforms if name not in left_out), shares=shares)


def _plan(
    on: str | None, variants: int, corpus: str, seed: int, fragments: str, sample: list[str], timeout: float
) -> Plan:
    from mindgap.campaign.plan import Plan, parse_share, parse_shares, with_baseline
    from mindgap.session.session import DEFAULT_PLATFORMS

    platforms = with_baseline(split(on, "--on") if on is not None else list(DEFAULT_PLATFORMS))
    store = store_of(corpus)
    directory = str(store.resolve()) if store is not None else None
    named = tuple(split(corpus, "--corpus")) if store is None else None
    shares = parse_shares(sample, platforms)
    part = parse_share("--fragments", fragments)
    return Plan(platforms, variants, seed, named, directory, shares=shares, timeout_s=timeout, fragments=part)

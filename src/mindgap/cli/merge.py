"""Merge results of another machine into a campaign.

They are judged as if all platforms had run here. Variants on which any platform disagrees run again on this machine's
platforms, because a verdict needs their outputs, which are not kept. Exit code: as `mindgap hunt`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from mindgap.cli.options import (
    FAIL_ON,
    CampaignDirectory,
    ConfigFile,
    FailOn,
    Jobs,
    KnownFile,
    conclusions,
    refuse_mistakes,
)


def command(
    directory: CampaignDirectory,
    results: Annotated[Path, typer.Argument(help="What `mindgap run` wrote.", metavar="RESULTS")],
    jobs: Jobs = None,
    fail_on: FailOn = FAIL_ON,
    known: KnownFile = None,
    config: ConfigFile = None,
) -> None:
    refuse_mistakes(config=config, campaign=directory, files=[results, known])
    from mindgap.campaign.hunt import merge
    from mindgap.campaign.known import load_known
    from mindgap.cli.hunt import finish
    from mindgap.platforms.config import load_config
    from mindgap.report.campaign_console import HuntProgress

    failing = conclusions(fail_on)
    listed = load_known(known) if known is not None else []
    with HuntProgress() as progress:
        ending = merge(directory, results, jobs=jobs, config=load_config(config), known=listed, watch=progress)
    finish(directory, ending, failing)

"""Run a packed campaign on the platforms of this machine.

The results go back to the machine of the campaign: `mindgap merge DIR results.mgz`. Outputs travel only where they
are not the bits that eager gave there. Where the command line is not installed, the same is
`python -m mindgap.campaign.remote campaign.mgz --on PLATFORM -o results.mgz`: torch, numpy and msgpack are enough.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from mindgap.cli.options import ConfigFile, split


def command(
    pack: Annotated[Path, typer.Argument(help="What `mindgap pack` wrote.", metavar="PACK")],
    on: Annotated[str, typer.Option(help="Platforms of this machine, comma-separated.")],
    output: Annotated[Path, typer.Option("-o", "--output", help="The results to write.", metavar="FILE")] = Path(
        "results.mgz"
    ),
    config: ConfigFile = None,
) -> None:
    from mindgap.campaign.remote import run_pack
    from mindgap.platforms.config import load_config
    from mindgap.report.console import ProgressLine, show_line

    with ProgressLine() as progress:
        count = run_pack(
            pack,
            split(on, "--on"),
            output,
            config=load_config(config),
            tell=lambda platform, done, total: progress(platform, f"{done} of {total}"),
        )
    show_line(f"{count} outcomes in {output}; next, where the campaign is: mindgap merge DIR {output.name}")

"""Run a packed campaign on the platforms of this machine.

Copy the results back and merge them there: `mindgap merge DIR results.mgz`. Outputs that have eager's bits are not
sent. Without the command line, `python -m mindgap.campaign.remote campaign.mgz --on PLATFORM -o results.mgz` does the
same and needs only torch, numpy and msgpack.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from mindgap.cli.options import ConfigFile, output, refuse_mistakes, split


def command(
    pack: Annotated[Path, typer.Argument(help="What `mindgap pack` wrote.", metavar="PACK")],
    on: Annotated[str, typer.Option(help="Platforms of this machine, comma-separated.")],
    results: Annotated[Path, output("The results to write.")] = Path("results.mgz"),
    config: ConfigFile = None,
) -> None:
    names = split(on, "--on")
    refuse_mistakes(on=names, config=config, files=[pack], outputs=[results])
    from mindgap.campaign.remote import run_pack
    from mindgap.platforms.config import load_config
    from mindgap.report.console import ProgressLine, show_line

    with ProgressLine() as progress:
        count = run_pack(pack, names, results, config=load_config(config), tell=progress.count)
    show_line(f"{count} outcomes in {results}")
    show_line(f"next, on the campaign's machine: mindgap merge DIR {results.name}")

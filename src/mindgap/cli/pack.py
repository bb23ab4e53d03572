"""Pack a campaign for a machine that cannot see this one.

\b
  mindgap pack out/hunt -o campaign.mgz                            here
  mindgap run campaign.mgz --on eager:npu -o results.mgz           there
  mindgap merge out/hunt results.mgz                               here

The pack holds every program (a few KB each; weights are made from seeds), and never anything that executes.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def command(
    directory: Annotated[Path, typer.Argument(help="The directory of the campaign.", metavar="DIR")],
    output: Annotated[Path, typer.Option("-o", "--output", help="The pack to write.", metavar="FILE")] = Path(
        "campaign.mgz"
    ),
) -> None:
    from mindgap.campaign.packing import pack_campaign
    from mindgap.report.console import ProgressLine, show_line

    with ProgressLine() as progress:
        progress("pack", "making the variants again")
        count = pack_campaign(directory, output, tell=lambda done, total: progress("pack", f"{done} of {total}"))
    size = output.stat().st_size / 1e6
    show_line(f"{count} variants in {output} ({size:.1f} MB); next: mindgap run {output.name} --on PLATFORM there")
